"""A run killed (SIGKILL) at any moment goes on to the same weights, bit for bit.

One process imports and warms up everything, then forks a run per trial: a trial costs what the run
costs. A run dies at a random time, or inside a write: once per kind of moment (before or after an
fsync or rename, with half of a file written, before tensors are serialised), the n-th at random.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest
import safetensors.torch

TIMED = 3


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


class Points:
    """The moments inside writes: counts them, and dies at the chosen one."""

    def __init__(self, chosen=None):
        self.chosen, self.passed = chosen, []

    def __call__(self, name, way):
        """`way` is what remains to be done of the call when the run dies in it."""
        self.passed.append(name)
        if len(self.passed) - 1 == self.chosen:
            way()
            die()

    def install(self):
        from pcme.training import checkpoint

        for owner, name in ((os, "fsync"), (os, "replace"), (safetensors.torch, "save")):
            self._before_and_after(owner, name)
        for owner, name in ((Path, "write_text"), (Path, "write_bytes"), (checkpoint, "write_new")):
            self._torn(owner, name)

    def _before_and_after(self, owner, name):
        real = getattr(owner, name)

        def patched(*args, **options):
            self(f"before {name}", lambda: None)
            result = real(*args, **options)
            self(f"after {name}", lambda: None)
            return result

        setattr(owner, name, patched)

    def _torn(self, owner, name):
        real = getattr(owner, name)

        def patched(path, data, **options):
            self(f"within {name}", lambda: real(path, data[: len(data) // 2], **options))
            return real(path, data, **options)

        setattr(owner, name, patched)


def forked(work):
    """The process id of a child that does this work and nothing else."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child


def serve(folder):
    """Run all trials; one line of JSON for each."""
    import torch

    torch.set_num_threads(1)
    from pcme.training import train
    from tests.training.trained import TINY, same_run

    recipe = TINY.changed(["phases.1.epochs=1"])
    straight = folder / "straight" / "run"
    train(recipe, straight, workers=0)

    points = Points()
    counted = folder / "points.json"

    def count():
        points.install()
        train(recipe, folder / "counted" / "run")
        counted.write_text(json.dumps(points.passed))

    begun = time.monotonic()
    os.waitpid(forked(count), 0)
    duration = time.monotonic() - begun
    passed = json.loads(counted.read_text())[:-1]

    def killed(run, point):
        if point is not None:
            Points(point).install()
        train(recipe, run, resume=True)

    draws = random.Random(7)
    moments = [draws.choice([n for n, p in enumerate(passed) if p == k]) for k in sorted({*passed})]
    for trial, point in enumerate([*[None] * TIMED, *moments]):
        run = folder / f"trial-{trial}" / "run"
        child = forked(lambda run=run, point=point: killed(run, point))
        if point is None:
            time.sleep(draws.uniform(0, duration))
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        train(recipe, run, resume=True, workers=0)
        hidden = [str(path) for path in run.rglob(".*")]
        report = {
            "moment": "time" if point is None else passed[point],
            "killed": os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL,
            "failed": os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0,
            "same": same_run(run, straight),
            "card": (run / "README.md").read_text() == (straight / "README.md").read_text(),
            "hidden": hidden,
        }
        os.write(1, (json.dumps(report) + "\n").encode())


@pytest.mark.slow
def test_a_run_killed_at_any_moment_comes_to_the_same(tmp_path):
    command = [sys.executable, "-m", "tests.training.test_killed", str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    for report in reports:
        assert report["same"], report
        assert report["card"], report
        assert report["hidden"] == [], report
        assert not report["failed"], done.stderr
    inside = [report for report in reports if report["moment"] != "time"]
    assert all(report["killed"] for report in inside)
    assert len({report["moment"] for report in inside}) == len(inside) >= 8
    assert len(reports) == TIMED + len(inside)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
