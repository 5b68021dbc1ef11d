"""Rows: ids and metadata as columns, and errors for those that cannot be."""

import pytest

from pcme.errors import ConfigError, DataError
from tests.helpers import random_gaussians, unless_annotations_are_enforced
from tests.index.worlds import drawn


def test_metadata_have_types_and_come_later(tmp_path):
    index, items = drawn(tmp_path / "index")
    more = random_gaussians(2, 4, seed=3)
    rows = [{"place": "Oslo", "tags": ["a", "b"]}, {"number": 7.0}]
    index.add(more, rows, ids=["x", "y"])
    assert index.search(more[0], k=1)[0].metadata == {"place": "Oslo", "tags": ["a", "b"]}
    assert index.search(items[0], where="place = 'Oslo'").ids == ["x"]
    assert index.search(items[0], where="array_has(tags, 'b')").ids == ["x"]
    assert set(index.search(items[0], where="number = 7").ids) == {"00007", "y"}
    assert index.describe().columns == {"number": "int64", "place": "string", "tags": "list<item: string>"}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"number": ["seven", "eight"]}, '"number": holds int64, got string'),
        ({"number": [1.5, 2.5]}, '"number": holds int64, got double'),
        ({"mean": [1, 2]}, '"mean" cannot be a column of metadata'),
        ({"a": [1, "b"]}, "no type fits all values"),
        ({"a": [1]}, "metadata: must be one per item"),
    ],
)
def test_metadata_that_do_not_fit_are_errors(tmp_path, metadata, message):
    index, items = drawn(tmp_path / "index")
    with pytest.raises((DataError, ConfigError), match=message):
        index.add(items[:2], metadata, ids=["x", "y"])
    assert len(index) == 50


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["x", "x"], '"x" is given twice'),
        (["x", ""], "text that is not empty"),
        (["x"], "ids: must be one per embedding"),
        (None, "embeddings need ids"),
        (["x", "y" * 5000], "at most 4,096 characters"),
    ],
)
def test_ids_that_are_none_are_errors(tmp_path, ids, message):
    index, items = drawn(tmp_path / "index")
    with pytest.raises(DataError, match=message):
        index.add(items[:2], ids=ids)


@unless_annotations_are_enforced
def test_an_id_is_text(tmp_path):
    index, items = drawn(tmp_path / "index", 1)
    with pytest.raises(DataError, match="text that is not empty, got 3"):
        index.add(items, ids=[3])


def test_ids_with_quotes_are_ids(tmp_path):
    index, _ = drawn(tmp_path / "index", 0)
    items = random_gaussians(2, 4, seed=0)
    index.add(items, ids=["it's", "id' OR 'a'='a"])
    assert index.delete("it's") == 1
    assert index.search(items[0]).ids == ["id' OR 'a'='a"]
