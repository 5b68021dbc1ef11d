"""A confidence is kept beside its model, and speaks of no other."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, log_expit

from pcme.errors import FormatError
from pcme.uncertainty import Confidence, fingerprint
from tests.uncertainty.worlds import some_confidence

logs = st.lists(st.floats(-200, 0), min_size=1, max_size=20).map(np.array)


@pytest.fixture
def model(tmp_path):
    """The folder of a "model", and a confidence of it."""
    (tmp_path / "weights.safetensors").write_bytes(b"weights")
    return tmp_path, some_confidence(model=fingerprint(tmp_path))


@given(logs)
def test_probability_keeps_the_order_and_is_one(log_p):
    p = some_confidence().probability(np.sort(log_p))
    assert np.all((p > 0) & (p < 1))
    assert np.all(np.diff(p) >= 0)
    np.testing.assert_allclose(some_confidence().log_probability(np.sort(log_p)), np.log(p), atol=1e-9)


def test_probability_follows_the_curve_and_expected_is_the_sum():
    confidence = some_confidence()
    assert confidence.probability(log_expit(3.0)) == pytest.approx(expit(2.0))
    assert confidence.probability(log_expit(5.0)) == pytest.approx(expit(2.0 + 0.8 * 2))
    assert confidence.probability(np.full((2, 3), -1.0)).shape == (2, 3)
    assert confidence.expected([0.5, 0.25, 1e-9]) == pytest.approx(0.75)


def test_percentiles_are_of_their_side():
    confidence = some_confidence(images=(1.0, 2.0, 3.0))
    assert confidence.percentile(0.2) == pytest.approx(50)
    assert confidence.percentile([1.5, 9.0], "images").tolist() == [25, 100]


def test_answerable_takes_the_size_into_account():
    confidence = some_confidence()
    best = confidence.presence.threshold() + 1e-6
    answers = [confidence.answerable(best, **options) for options in ({}, {"gallery": 100}, {"gallery": 10_000})]
    assert answers == [True, True, False]
    assert not confidence.answerable(best, false_alarm=0.01)
    assert confidence.false_alarm(best, gallery=10_000) > 0.5


def test_thresholds_by_p_and_by_sigma():
    by_sigma = some_confidence().by_p
    confidence = some_confidence(by_sigma=by_sigma)
    expected = (pytest.approx(expit(by_sigma.sureness[79])), 0.8, by_sigma.risk[79])
    assert confidence.threshold(min_coverage=0.8) == expected
    assert confidence.threshold(min_coverage=0.8, by="sigma").value == -by_sigma.sureness[79]
    assert confidence.threshold(max_risk=0.3).coverage == 1


def test_saved_and_loaded_it_is_the_same_unless_the_weights_are_others(model):
    folder, confidence = model
    assert Confidence.load(folder) is None
    path = confidence.save(folder)
    assert Confidence.load(folder) == confidence
    assert [p.name for p in folder.iterdir() if p != path] == ["weights.safetensors"]
    confidence.save(folder / "new" / "folder")
    assert Confidence.load(folder, stored=folder / "new" / "folder") == confidence
    with pytest.raises(FormatError, match="cannot be written"):
        confidence.save(folder / "weights.safetensors")
    (folder / "weights.safetensors").write_bytes(b"trained anew")
    with pytest.raises(FormatError, match="other weights"):
        Confidence.load(folder)


def test_a_hub_folder_has_a_fingerprint_and_an_empty_one_has_none(tmp_path):
    with pytest.raises(FormatError, match="not a model"):
        fingerprint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert len(fingerprint(tmp_path)) == 64


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: "{",
        lambda record: "[]",
        lambda record: json.dumps({**record, "format_version": 2}),
        lambda record: json.dumps({**record, "colour": "red"}),
        lambda record: json.dumps({k: v for k, v in record.items() if k != "curve"}),
        lambda record: json.dumps({**record, "curve": {**record["curve"], "slope": -1.0}}),
        lambda record: json.dumps({**record, "captions": [2.0, 1.0]}),
        lambda record: json.dumps({**record, "captions": [0.0, float("nan")]}),
    ],
)
def test_damage_is_a_format_error_that_names_the_file(model, damage):
    folder, confidence = model
    path = confidence.save(folder)
    path.write_text(damage(json.loads(path.read_text())))
    with pytest.raises(FormatError, match=r"confidence\.json: damaged"):
        Confidence.load(folder)
