"""Rows: ids and metadata as columns, and errors for those that cannot be."""

import pytest

from pcme.errors import DataError
from tests.helpers import random_gaussians, unless_annotations_are_enforced
from tests.index.worlds import drawn


def test_metadata_have_types_and_come_later(fifty):
    index, items = fifty
    more = random_gaussians(2, 4, seed=3)
    index.add(more, [{"place": "Oslo", "tags": ["a", "b"]}, {"number": 7.0}], ids=["x", "y"])
    assert index.search(more[0], k=1)[0].metadata == {"place": "Oslo", "tags": ["a", "b"]}
    for where, ids in (("place = 'Oslo'", {"x"}), ("array_has(tags, 'b')", {"x"}), ("number = 7", {"00007", "y"})):
        assert {*index.search(items[0], where=where).ids} == ids
    assert index.describe().columns == {"number": "int64", "place": "string", "tags": "list<item: string>"}


@pytest.mark.parametrize(
    ("ids", "metadata", "message"),
    [
        (["x", "y"], {"number": ["seven", "eight"]}, '"number": holds int64, got string'),
        (["x", "y"], {"number": [1.5, 2.5]}, '"number": holds int64, got double'),
        (["x", "y"], {"a": [1, "b"]}, "no type fits all values"),
        (["x", "y"], {"a": [1]}, "metadata: must be one per item"),
        (["x", "x"], None, '"x" is given twice'),
        (["x", ""], None, "text that is not empty"),
        pytest.param([3, 4], None, "text that is not empty, got 3", marks=unless_annotations_are_enforced),
        (["x"], None, "ids: must be one per embedding"),
        (None, None, "embeddings need ids"),
        (["x", "y" * 5000], None, "at most 4,096 characters"),
    ],
)
def test_what_does_not_fit_is_an_error(unchanged, ids, metadata, message):
    index, items = unchanged
    with pytest.raises(DataError, match=message):
        index.add(items[:2], metadata, ids=ids)


def test_ids_with_quotes_are_ids(tmp_path):
    index, _ = drawn(tmp_path / "index", 0)
    items = random_gaussians(2, 4, seed=0)
    index.add(items, ids=["it's", "id' OR 'a'='a"])
    assert index.delete("it's") == 1
    assert index.search(items[0]).ids == ["id' OR 'a'='a"]
