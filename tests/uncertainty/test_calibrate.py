"""A model's confidence from a split: fitted on all of it, reported of the half it has not seen."""

import pytest

from pcme import data, recipes
from pcme.data.problems import Problems
from pcme.evaluation import embed
from pcme.model import load
from pcme.training import train
from pcme.uncertainty import Confidence, fingerprint, fit, halves, judged
from pcme.uncertainty.calibrate import calibrate, unmatched_captions
from tests.helpers import photos

TINY = recipes.get("aviary-tiny")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calibrating") / "run"
    train(TINY, folder)
    return folder


@pytest.fixture(scope="module")
def split():
    changes = {"val_species": 8, "val_images": 5, "captions_per_image": 4}
    return data.create("aviary", **{**TINY.data.params, **changes}).load("val")


def test_it_is_of_this_model_and_can_be_kept_beside_it(folder, split):
    found = calibrate(folder, split).confidence
    assert found.model == fingerprint(folder)
    assert (found.basis.data, found.basis.captions, found.basis.images) == ("aviary/val", 160, 40)
    found.save(folder)
    assert Confidence.load(folder) == found


def test_the_report_is_of_the_other_half(folder, split):
    found = calibrate(folder, split, method="platt", false_alarm=0.3)
    model = load(folder)
    embedded = embed(model, split, Problems())
    first, second = halves(split, embedded.captions, embedded.images)
    trial = fit(model.score(), first, model="m", method="platt", false_alarm=0.3)
    expected = judged(trial, model.score(), second, unmatched=unmatched_captions(model, split))
    assert found.report == expected
    assert found.report.unmatched is not None
    assert found.confidence.presence.false_alarm == 0.3


def test_nobody_knows_what_fits_no_photograph(folder, tmp_path):
    assert unmatched_captions(load(folder), photos(tmp_path)) is None
