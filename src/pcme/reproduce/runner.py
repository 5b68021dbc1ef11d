"""The runner: jobs in processes of their own, some at a time. The studies use it, too."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from pcme.errors import ConfigError, PcmeError


class Launchable(Protocol):
    """A job that a process of its own does in a folder; it resumes what it finds there."""

    @property
    def label(self) -> str:
        """Its name for people."""

    @property
    def folder(self) -> Path:
        """The folder of its result, its log and its output."""

    @property
    def missing(self) -> object:
        """Whether anything is left to do."""

    @property
    def command(self) -> Sequence[str]:
        """The Python module that does it, and its arguments."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of its process besides those of this one."""

    def write(self) -> None:
        """Put what the process needs into the folder."""


J = TypeVar("J", bound=Launchable)

LAST_LINES = 3
"""Lines of a failed job's log that are shown."""


@dataclass(frozen=True)
class JobEnded:
    """A job has ended: which, how long it took, how many are left and for about how long."""

    label: str
    seconds: float
    done: int
    total: int
    left: float
    failure: str | None = None


def run_all(
    jobs: Sequence[J],
    *,
    workers: int,
    launch: Callable[[J], None] | None = None,
    after: Callable[[J, float | None], None] = lambda job, seconds: None,
    ended: Callable[[JobEnded], None] = lambda job: None,
) -> list[str]:
    """Launch all jobs of which something is missing, `workers` at a time; return the failures.

    `after(job, seconds)` is called in the worker's thread for every job, without seconds where nothing was missing;
    `ended` in this one. A job that fails does not keep the others from being done. When this is interrupted the
    processes are too; they keep their state and resume next time.
    """
    with Processes() as processes, ThreadPoolExecutor(workers) as pool:

        def work(job: J) -> float:
            start, launched = time.perf_counter(), bool(job.missing)
            if launched:
                (launch or processes)(job)
            seconds = time.perf_counter() - start
            after(job, seconds if launched else None)
            return seconds

        start, failures = time.perf_counter(), []
        futures = {pool.submit(work, job): job for job in jobs}
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                label, failure = futures[future].label, None
                try:
                    seconds = future.result()
                except PcmeError as error:
                    seconds, failure = 0.0, str(error)
                    failures.append(f"{label}: {failure}")
                left = (time.perf_counter() - start) / done * (len(jobs) - done)
                ended(JobEnded(label, seconds, done, len(jobs), left, failure))
        except BaseException:
            processes.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return failures


class Processes:
    """Starts a process per job, with one thread; its log and output lie in the job's folder."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __call__(self, job: Launchable) -> None:
        """Do the job; an error with the end of its log when it fails."""
        if self._stopped:
            raise ConfigError("not started, because the others were interrupted")
        job.write()
        log = job.folder / "log.txt"
        command = [sys.executable, "-m", *job.command]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **job.environment}
        with log.open("ab") as errors, (job.folder / "output.txt").open("wb") as output:
            # In a session of its own: an interrupt comes from here alone, and once.
            process = subprocess.Popen(command, env=environment, stdout=output, stderr=errors, start_new_session=True)
            self._running.add(process)
            try:
                status = process.wait()
            finally:
                self._running.discard(process)
        if status:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-LAST_LINES:]
            raise ConfigError(f"ended with status {status}: {' / '.join(map(str.strip, lines))}. See {log}.")

    def stop(self) -> None:
        """Interrupt the running jobs, which keep their state, and wait for their end."""
        self._stopped = True
        for process in list(self._running):
            process.send_signal(signal.SIGINT)
            process.wait()
