"""Writer: all or nothing, also of the columns; what would spoil an index never gets into it."""

import pytest

from pcme.errors import ConfigError, DataError
from tests.helpers import random_gaussians, unless_annotations_are_enforced
from tests.index.worlds import drawn


@pytest.mark.parametrize("name", ["", " ", "a`b", "a.b", "a\nb", "_a", "id", "path", "text", "kind", "seq", "mean"])
def test_a_name_that_the_engine_cannot_read_never_becomes_a_column(unchanged, name):
    index, items = unchanged
    with pytest.raises(ConfigError, match="cannot be a column of metadata"):
        index.add(items[:1], {name: [1]}, ids=["new"])


@pytest.mark.parametrize("name", ["a b", "a'b", 'a"b', "a/b", "ä", "1", "select"])
def test_any_other_name_does(tmp_path, name):
    index, items = drawn(tmp_path / "index", 3)
    for value, on_conflict in ((1, "error"), (2, "replace")):
        index.add(items[:1], {name: [value]}, ids=["new"], on_conflict=on_conflict)
    assert index.search(items[0], where="id = 'new'")[0].metadata == {name: 2}


def test_values_that_do_not_fit_leave_no_column_behind(fifty):
    index, items = fifty
    with pytest.raises(DataError, match='"number": holds int64'):
        index.add(items[:1], {"colour": ["red"], "number": ["abc"]}, ids=["new"])
    assert index.describe().columns == {"number": "int64"}
    index.add(items[:1], {"colour": ["red"], "number": [7]}, ids=["new"])
    assert index.search(items[0], where="colour = 'red'")[0].metadata == {"number": 7, "colour": "red"}
    index.add(items[:1], {}, ids=["newer"])  # no metadata at all
    assert index.verify().ok


@unless_annotations_are_enforced
def test_replacing(fifty):
    index, items = fifty
    index.search(items[0])  # so that a stale copy would be noticed
    other = random_gaussians(2, 4, seed=9)
    done = index.add(other, {"number": [-1, -2]}, ids=["00003", "new"], on_conflict="replace")
    assert (done.added, done.replaced, len(index)) == (1, 1, 51)
    assert index.search(other[0], k=1)[0].metadata == {"number": -1}
    assert index.search(items[3], k=1).ids != ["00003"]
    with pytest.raises(DataError, match='"00003" is in the index already'):
        index.add(other[:1], ids=["00003"], on_conflict="error")
    with pytest.raises(ConfigError, match="on_conflict"):
        index.add(other[:1], ids=["00003"], on_conflict="overwrite")


def test_deleting(fifty):
    index, items = fifty
    index.search(items[0])
    assert [index.delete(["00007", "nobody"]), index.delete("00008"), index.delete(where="number >= 40")] == [1, 1, 10]
    assert len(index) == 38
    for gone in (7, 8, 45):
        assert f"{gone:05d}" not in index.search(items[gone], k=38).ids
    index.add(items[7], ids=["00007"])
    assert index.search(items[7], k=1).ids == ["00007"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "either ids or a filter"), ({"ids": ["a"], "where": "true"}, "either ids"), ({"where": " "}, "is empty")],
)
def test_deleting_needs_either_ids_or_a_filter(unchanged, arguments, message):
    with pytest.raises(ConfigError, match=message):
        unchanged[0].delete(**arguments)
