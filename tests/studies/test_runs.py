"""Runs of the studies: trained in a process, measured, and reused the next time."""

import json

import pytest

from studies.real.measure import measure
from studies.runs import TrainingRun, train_all
from tests.analysis.subjects import WORLD, untrained

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


def test_a_backbone_that_learned_labels_is_not_taken_for_a_frozen_one(tmp_path, monkeypatch):
    phases = ("phases.0.task=labels", "phases.0.backbone=frozen", "phases.1.backbone=frozen")
    untrained(SMALL[0], *phases).save(tmp_path / "run")
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "cache"))
    values = measure(tmp_path / "run", ("test",), None, sigma=False)
    assert not (tmp_path / "cache").exists(), "its features are of this run alone"
    assert set(values) == {"test", "within", "averaged"}
