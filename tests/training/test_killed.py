"""A run killed (SIGKILL) at any moment goes on to the same weights, bit for bit.

One process imports and warms up everything, then forks a run per trial. A run dies at a random time, or inside a write:
once per kind of moment (before or after an fsync or rename, with half of a file written), the n-th at random.
"""

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import safetensors.torch

TIMED = 3


class Points:
    """The moments inside writes: lists them, and dies at the chosen one."""

    def __init__(self, chosen=None):
        self.chosen, self.passed = chosen, []

    def reach(self, name, unfinished=lambda: None):
        """`unfinished` is the part of a call that is done before the run dies in it."""
        self.passed.append(name)
        if len(self.passed) - 1 == self.chosen:
            unfinished()
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self):
        from pcme.training import checkpoint

        for owner, name in ((os, "fsync"), (os, "replace"), (safetensors.torch, "save")):
            setattr(owner, name, self.around(getattr(owner, name)))
        for owner, name in ((Path, "write_text"), (Path, "write_bytes"), (checkpoint, "write_new")):
            setattr(owner, name, self.torn(getattr(owner, name)))

    def around(self, real):
        def patched(*args, **options):
            self.reach(f"before {real.__name__}")
            result = real(*args, **options)
            self.reach(f"after {real.__name__}")
            return result

        return patched

    def torn(self, real):
        def patched(path, data, **options):
            self.reach(f"within {real.__name__}", lambda: real(path, data[: len(data) // 2], **options))
            return real(path, data, **options)

        return patched


def forked(work, *args):
    """A child process that does this work and nothing else."""
    child = multiprocessing.get_context("fork").Process(target=work, args=args)
    child.start()
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

    def count():
        points = Points()
        points.install()
        train(recipe, folder / "counted" / "run")
        (folder / "points.json").write_text(json.dumps(points.passed))

    begun = time.monotonic()
    forked(count).join()
    duration = time.monotonic() - begun
    passed = json.loads((folder / "points.json").read_text())[:-1]

    def killed(run, point):
        if point is not None:
            Points(point).install()
        train(recipe, run, resume=True)

    draws = random.Random(7)
    moments = [draws.choice([n for n, p in enumerate(passed) if p == k]) for k in sorted({*passed})]
    for trial, point in enumerate([*[None] * TIMED, *moments]):
        run = folder / f"trial-{trial}" / "run"
        child = forked(killed, run, point)
        if point is None:
            time.sleep(draws.uniform(0, duration))
            child.kill()
        child.join()
        train(recipe, run, resume=True, workers=0)
        report = {
            "moment": "time" if point is None else passed[point],
            "status": child.exitcode,
            "same": same_run(run, straight),
            "card": (run / "README.md").read_text() == (straight / "README.md").read_text(),
            "hidden": [str(path) for path in run.rglob(".*")],
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
        ends = {-signal.SIGKILL, 0} if report["moment"] == "time" else {-signal.SIGKILL}
        assert report["status"] in ends, done.stderr
    moments = [report["moment"] for report in reports if report["moment"] != "time"]
    assert len({*moments}) == len(moments) >= 8
    assert len(reports) == TIMED + len(moments)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
