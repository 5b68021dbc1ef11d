"""A filter filters: what the guide promises passes, what could do more does not."""

import pytest

from pcme.errors import ConfigError
from pcme.serve.filters import TERMS, checked

GOOD = [
    "year = 2003",
    "year > 2001 AND note LIKE '<script>%'",
    "NOT (year < 2005 OR year >= 2010)",
    "id IN ('photos/00.png', 'photos/01.png')",
    "year BETWEEN 2001 AND 2003",
    "note IS NULL",
    "note IS NOT NULL",
    "year % 2 = 0",
    "(year + 1) * 2 > 4008",
    "year - -1 > 2005",
    "kind = 'image' and `year` <> 2004",
    "lower(id) LIKE 'photos/%'",
    "starts_with(id, 'photos')",
    "regexp_like(id, '0[1-3]')",
    "length(id) = 13",
    "text = 'it''s (not) -- a; comment'",
    "2.5e3 > 1.0 AND year = 2003",
]


@pytest.mark.parametrize("where", GOOD)
def test_the_expressions_of_the_guide_pass_and_the_engine_takes_them(index, where):
    assert checked(where) == where
    assert set(index.ids(where)) <= set(index.ids())


def test_there_may_be_no_filter():
    assert checked(None) is None


BAD = [
    "",
    "  ",
    "()) OR ((true",
    "true) OR (true",
    "(year = 1",
    "year = 1; DROP TABLE items",
    "year = 1 -- and",
    "year = 1 /* and */",
    "year = 'open",
    "year = \\'1",
    "id = repeat('a', 1000000000)",
    "id = \"repeat\"('a', 9)",
    "id = `repeat`('a', 9)",
    "repeat ('a', 9) = id",
    "random() > 0.5",
    "id IN (SELECT id FROM items)",
    "id IN (select id from items)",
    "EXISTS (SELECT 1)",
    "year = $1",
    "year = ?",
    "(" * 17 + "true" + ")" * 17,
    " OR ".join(["true"] * TERMS),
]


@pytest.mark.parametrize("where", BAD, ids=lambda where: where[:30])
def test_what_could_do_more_is_refused(where):
    with pytest.raises(ConfigError, match=r"^where: "):
        checked(where)


def test_the_longest_chains_that_pass_do_not_overwhelm_the_engine(index):
    terms = (TERMS + 1) // 2
    assert index.ids(checked(" OR ".join(["true"] * terms))) == index.ids()
    assert index.ids(checked("(" * 16 + "true" + ")" * 16)) == index.ids()
    for deep in ("NOT " * (TERMS - 2) + "true", "- " * 200 + "1 > 0"):
        with pytest.raises(ConfigError, match="cannot be used"):
            index.ids(checked(deep))
