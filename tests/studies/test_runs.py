"""Runs of the studies: trained in a process, measured, and reused the next time."""

import json

import pytest

from studies.runs import TrainingRun, train_all
from tests.analysis.subjects import WORLD

SMALL = (
    f"data={json.dumps({'kind': 'aviary', **WORLD, 'train_species': 8, 'val_species': 4})}",
    "phases.0.epochs=1",
    "phases.0.warmup_steps=0",
)


@pytest.mark.slow
def test_a_run_is_trained_once_and_measured_each_time(tmp_path):
    run = TrainingRun("aviary-tiny", tmp_path / "run", SMALL)
    seen, saved = [], []
    for _ in range(2):
        train_all([run], lambda *task: seen.append(task), lambda: saved.append(len(seen)))
    assert [task[0] for task in seen] == [run, run]
    assert seen[0][1] > 0
    assert seen[1][1] is None, "finished runs are reused"
    assert saved == [1, 2]
    assert json.loads((run.folder / "output.txt").read_text())["validation"]


def test_a_run_that_fails_ends_the_study(tmp_path, capsys):
    with pytest.raises(SystemExit, match="failed"):
        train_all([TrainingRun("no-such-recipe", tmp_path / "run")])
    assert "no-such-recipe" in capsys.readouterr().err
