"""A model's confidence from a split: fitted on all of it, reported of the half it has not seen."""

import pytest

from pcme import data
from pcme.data.problems import Problems
from pcme.evaluation import embed
from pcme.model import load
from pcme.uncertainty import Confidence, assess, fingerprint, fit, halves
from pcme.uncertainty.calibrate import calibrate, unmatched_captions
from tests.helpers import photos
from tests.models import TINY, copied


@pytest.fixture(scope="module")
def split():
    changes = {"val_species": 8, "val_images": 5, "captions_per_image": 4}
    return data.create("aviary", **{**TINY.data.params, **changes}).load("val")


def test_it_is_of_this_model_and_can_be_kept_beside_it(sigma_run, split, tmp_path):
    folder = copied(sigma_run, tmp_path)
    confidence = calibrate(sigma_run, split).confidence
    assert confidence.model == fingerprint(folder)
    basis = confidence.basis
    assert (basis.data, basis.captions, basis.images) == ("aviary/val", 160, 40)
    assert basis.matching == split.matches().dense().mean()
    confidence.save(folder)
    assert Confidence.load(folder) == confidence


def test_the_report_is_of_the_other_half(sigma_run, split):
    calibrated = calibrate(sigma_run, split, method="platt", false_alarm=0.3)
    model = load(sigma_run)
    embedded = embed(model, split, Problems())
    first, second = halves(embedded)
    trial = fit(model.score(), first, model="m", method="platt", false_alarm=0.3)
    expected = assess(trial, model.score(), second, unmatched=unmatched_captions(model, split))
    assert calibrated.report == expected
    assert calibrated.report.unmatched is not None
    assert calibrated.confidence.presence.false_alarm == 0.3


def test_nobody_knows_what_fits_no_photograph(sigma_run, tmp_path):
    assert unmatched_captions(load(sigma_run), photos(tmp_path)) is None
