"""Where an imported model comes from: kept, and checked when it is read."""

import json
import math

import numpy as np
import pytest

from pcme.errors import FormatError
from pcme.model.origin import Origin, load, save, stated

ORIGIN = Origin("pcme_coco.pth", "ab" * 32, "coco", 30, {"i2t.recall_1": 44.2})


def test_it_is_read_as_it_was_written_and_goes_with_its_model(tmp_path):
    save(ORIGIN, tmp_path)
    assert load(tmp_path) == ORIGIN
    save(None, tmp_path)
    assert load(tmp_path) is None


@pytest.mark.parametrize(
    "record",
    [
        [],
        {},
        {**ORIGIN.record(), "file": 1},
        {**ORIGIN.record(), "epoch": "3"},
        {**ORIGIN.record(), "extra": 1},
        {**ORIGIN.record(), "scores": {"a": "b"}},
        {**ORIGIN.record(), "scores": 1},
    ],
)
def test_another_record_is_refused(tmp_path, record):
    (tmp_path / "origin.json").write_text(json.dumps(record))
    with pytest.raises(FormatError, match=r"origin.json: not the origin of a model"):
        load(tmp_path)


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / "origin.json").write_text("{")
    with pytest.raises(FormatError, match=r"origin.json: damaged"):
        load(tmp_path)


def test_only_finite_numbers_with_plain_names_are_stated():
    deep = {"a": 1}
    for _ in range(5_000):
        deep = {"a": deep}
    scores = {"i2t": {"medr": np.float32(3), "n": 4}, "x": math.inf, "a\n# b": 1, "s": "t", "d": deep}
    assert dict(stated(scores)) == {"i2t.medr": 3.0, "i2t.n": 4.0}
