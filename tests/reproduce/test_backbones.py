"""Labels learnt once for all runs: to the bit what each would have learnt itself."""

from unittest.mock import Mock

import pytest

from pcme.reproduce import backbones
from pcme.reproduce.backbones import labels_alone, start_from_shared_backbone
from pcme.training import train
from tests.reproduce.tiny import SETUP, WITH_LABELS
from tests.training.trained import same_run


def recipe(kind, *changes, seed=0):
    return WITH_LABELS.recipe(WITH_LABELS.assignments({"kind": kind}, changes, quick=True), seed=seed)


@pytest.fixture
def trainings(monkeypatch):
    """The calls that trained the shared run."""
    calls = Mock(side_effect=train)
    monkeypatch.setattr(backbones, "train", calls)
    return calls


def test_a_run_that_begins_after_the_shared_labels_is_the_run_as_a_whole(tmp_path, trainings):
    own = recipe("pcme", "dim=12")
    train(own, tmp_path / "whole", workers=0)
    start_from_shared_backbone(recipe("vse0"), tmp_path / "other", data_root=None, stamp="")
    start_from_shared_backbone(own, tmp_path / "begun", data_root=None, stamp="")
    train(own, tmp_path / "begun", resume=True, workers=0)
    assert same_run(tmp_path / "whole", tmp_path / "begun")
    assert len({call.args[1] for call in trainings.call_args_list}) == 1, "another method and dim share the labels"


def test_what_has_begun_is_left_alone(tmp_path, trainings):
    for _ in range(2):
        start_from_shared_backbone(recipe("vse0"), tmp_path / "run", data_root=None, stamp="")
    trainings.assert_called_once()


def test_what_the_labels_depend_on_is_not_shared_nor_anything_without_labels_or_with_an_average(tmp_path):
    alone = labels_alone(recipe("vse0"))
    assert alone == labels_alone(recipe("pcme", "dim=12"))
    assert [phase.task for phase in alone.phases] == ["labels"]
    for other in (recipe("vse0", seed=1), recipe("vse0", "phases.0.epochs=2")):
        assert labels_alone(other) != alone
    plain = SETUP.recipe(SETUP.assignments({"kind": "vse0"}, quick=True))
    assert labels_alone(plain) is None
    assert labels_alone(recipe("vse0", "average=0.9")) is None
    start_from_shared_backbone(plain, tmp_path / "run", data_root=None, stamp="")
    assert not (tmp_path / "run").exists()
