"""Running: jobs in processes of their own, some at a time; what is done is not done again."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from pcme.errors import ConfigError, PcmeError
from pcme.reproduce.backbones import labels_alone
from pcme.reproduce.jobs import Job

__all__ = ["JobEnded", "Launch", "Processes", "forget_features", "run_all"]

Launch = Callable[[Job], None]

CACHE = "cache"
LAST_LINES = 3
"""So many lines of a failed job's log are shown."""


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
    jobs: Sequence[Job],
    *,
    workers: int,
    launch: Launch | None = None,
    ended: Callable[[JobEnded], None] = lambda job: None,
) -> list[str]:
    """Do all jobs of which something is missing, `workers` at a time; what failed, in words.

    One that fails does not keep the others from being done. When this is interrupted the processes
    are too: they keep what they have, and go on from there next time.
    """
    waiting = [job for job in jobs if job.missing]
    if launch is not None:
        return _run(waiting, workers, launch, ended)
    with Processes() as processes:
        return _run(waiting, workers, processes, ended)


def _run(
    jobs: Sequence[Job], workers: int, launch: Launch, ended: Callable[[JobEnded], None]
) -> list[str]:
    start, failures = time.perf_counter(), []
    with ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(_timed, launch, job): job for job in jobs}
        try:
            for done, future in enumerate(as_completed(futures), start=1):
                seconds, failure = _outcome(future)
                label = futures[future].label
                failures += [f"{label}: {failure}"] if failure is not None else []
                left = (time.perf_counter() - start) / done * (len(jobs) - done)
                ended(JobEnded(label, seconds, done, len(jobs), left, failure))
        except BaseException:
            if isinstance(launch, Processes):
                launch.stop()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return failures


def _timed(launch: Launch, job: Job) -> float:
    start = time.perf_counter()
    launch(job)
    return time.perf_counter() - start


def _outcome(future: "Future[float]") -> tuple[float, str | None]:
    """(seconds, what went wrong)."""
    try:
        return future.result(), None
    except PcmeError as error:
        return 0.0, str(error)


class Processes:
    """Starts a process for each job, with one thread and a log beside the run."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __call__(self, job: Job) -> None:
        """Do the job; an error with the end of its log when it fails."""
        if self._stopped:
            raise ConfigError("was not begun, because the others were interrupted")
        job.write()
        log = job.folder / "log.txt"
        command = [sys.executable, "-m", "pcme.reproduce", str(job.folder)]
        with log.open("ab") as output:
            # In a session of its own: an interrupt comes from here alone, and once.
            process = subprocess.Popen(
                command, env=_environment(job), stdout=output, stderr=output, start_new_session=True
            )
            self._running.add(process)
            try:
                status = process.wait()
            finally:
                self._running.discard(process)
        if status:
            raise ConfigError(f"ended with status {status} - {_tail(log)} - see {log}")

    def stop(self) -> None:
        """Ask what is running to keep its state and end, and wait for it."""
        self._stopped = True
        for process in list(self._running):
            process.send_signal(signal.SIGINT)
            process.wait()


def forget_features(runs: Path) -> None:
    """Remove the features of backbones that were trained here: runs that are done need them not."""
    shutil.rmtree(runs / CACHE, ignore_errors=True)


def _environment(job: Job) -> dict[str, str]:
    """One thread a job; features of a backbone that is trained here are of use to nobody else."""
    own = {"PCME_CACHE": str(job.runs / CACHE)} if labels_alone(job.recipe) else {}
    return {**os.environ, "OMP_NUM_THREADS": "1", **own}


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return " / ".join(line.strip() for line in lines[-LAST_LINES:])
