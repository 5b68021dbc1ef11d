"""pcme calibrate on the terminal and for machines."""

import pytest

from pcme.uncertainty import Confidence
from tests.helpers import printed, record, refused
from tests.models import copied


@pytest.fixture(scope="module")
def folder(sigma_run, tmp_path_factory):
    return copied(sigma_run, tmp_path_factory.mktemp("calibrate") / "run")


def test_it_prints_what_the_confidence_is_worth_and_writes_it(folder):
    text = printed("calibrate", folder, "aviary", width=120)
    for part in (
        "calibration error, all pairs", "its own matches removed", "matches nothing here",
        "the least p refused", "the largest σ refused", "assessed on 5,000 captions, 500 images",
        "The share of false alarms is held among up to about", str(folder / "confidence.json"),
    ):  # fmt: skip
        assert part in text
    assert Confidence.load(folder).basis.method == "isotonic"


def test_machines_get_all_of_it(folder, tmp_path):
    options = ("--method", "platt", "--false-alarm", "0.05", "--split", "test", "--out", tmp_path)
    found = record("calibrate", folder, "aviary", *options)
    assert found["out"] == str(tmp_path / "confidence.json")
    assert found["basis"]["data"] == "aviary/test"
    assert found["answerable"]["false_alarm"] == 0.05
    assert found["answerable"]["reach"] >= found["answerable"]["gallery"] == 1000
    assert found["report"]["raw"]["reliability"]
    assert len(found["report"]["by_p"]["curve"]["risk"]) == 100
    assert Confidence.load(folder, stored=tmp_path).basis.method == "platt"


@pytest.mark.parametrize(
    ("options", "message"), [(("--method", "histogram"), '"histogram"'), (("--false-alarm", "3"), "false_alarm")]
)
def test_mistakes_are_explained(folder, options, message):
    assert message in refused("calibrate", folder, "aviary", *options)
