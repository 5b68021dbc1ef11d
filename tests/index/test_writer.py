"""Writer: all or nothing, also of the columns; what would spoil an index never gets into it."""

import pytest

from pcme.errors import ConfigError, DataError
from tests.helpers import random_gaussians
from tests.index.worlds import drawn


@pytest.mark.parametrize(
    "name", ["", " ", "a`b", "a.b", "a\nb", "_a", "id", "path", "text", "kind", "seq", "check"]
)
def test_a_name_that_the_engine_cannot_read_never_becomes_a_column(tmp_path, name):
    index, items = drawn(tmp_path / "index", 3)
    with pytest.raises(ConfigError, match="cannot be a column of metadata"):
        index.add(items[:1], {name: [1]}, ids=["new"])
    assert index.describe().columns == {"number": "int64"}
    assert len(index.search(items[0])) == 3


@pytest.mark.parametrize("name", ["a b", "a'b", 'a"b', "a/b", "ä", "1", "select"])
def test_any_other_name_does(tmp_path, name):
    index, items = drawn(tmp_path / "index", 3)
    index.add(items[:1], {name: [1]}, ids=["new"])
    index.add(items[:1], {name: [2]}, ids=["new"], on_conflict="replace")
    assert index.search(items[0], where="id = 'new'")[0].metadata == {name: 2}


def test_values_that_do_not_fit_leave_no_column_behind(tmp_path):
    index, items = drawn(tmp_path / "index", 3)
    with pytest.raises(DataError, match='"number": holds int64'):
        index.add(items[:1], {"colour": ["red"], "number": ["abc"]}, ids=["new"])
    assert index.describe().columns == {"number": "int64"}
    index.add(items[:1], {"colour": ["red"], "number": [7]}, ids=["new"])
    assert index.search(items[0], where="colour = 'red'")[0].metadata == {
        "number": 7,
        "colour": "red",
    }
    assert index.verify().ok


def test_no_metadata_at_all_are_none(tmp_path):
    index, _ = drawn(tmp_path / "index", 3)
    index.add(random_gaussians(1, 4, seed=3), {}, ids=["new"])
    assert len(index) == 4
