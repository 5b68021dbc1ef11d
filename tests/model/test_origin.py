import json
import math

import numpy as np
import pytest

from pcme.errors import FormatError
from pcme.model.origin import Origin, load, save, stated

ORIGIN = Origin(file="pcme_coco.pth", sha256="ab" * 32, dataset="coco", epoch=30, scores={"i2t.recall_1": 44.2})


def test_it_is_read_as_it_was_written_and_goes_with_its_model(tmp_path):
    save(ORIGIN, tmp_path)
    assert load(tmp_path) == ORIGIN
    save(None, tmp_path)
    assert load(tmp_path) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"file": 1},
        {"epoch": "3"},
        {"extra": 1},
        {"scores": {"a": "b"}},
        {"scores": {"a\n": 1.0}},
        {"scores": {"a": math.inf}},
        {"scores": 1},
    ],
)
def test_another_record_is_refused(tmp_path, changes):
    (tmp_path / "origin.json").write_text(json.dumps(ORIGIN.model_dump() | changes))
    with pytest.raises(FormatError, match=rf"origin.json: not the origin of a model, {next(iter(changes))}") as error:
        load(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("text", "message"), [("[]", "not the origin of a model"), ("{", "damaged")])
def test_another_file_is_named(tmp_path, text, message):
    (tmp_path / "origin.json").write_text(text)
    with pytest.raises(FormatError, match=f"origin.json: {message}"):
        load(tmp_path)


def test_only_finite_numbers_with_plain_names_are_stated():
    deep = {"a": 1}
    for _ in range(5_000):
        deep = {"a": deep}
    scores = {"i2t": {"medr": np.float32(3), "n": 4}, "x": math.inf, "a\n# b": 1, "s": "t", "d": deep}
    assert dict(stated(scores)) == {"i2t.medr": 3.0, "i2t.n": 4.0}
