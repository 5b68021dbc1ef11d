"""Every figure in the prose of the pages is that of a record, no result, or said to have no record."""

import re

import pytest

from tests.docs.pages import PAGES, ROOT, name
from tests.docs.quotes import NO_RESULTS, QUOTES
from tests.docs.quotes import PAGES as QUOTING

BLOCK = re.compile(r"<!-- (?!/)([^>]+) -->(.*?)<!-- /\1 -->", re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
FIGURE = re.compile(r"(?<![\w.§])\d*\.\d+|\d ?%|\d / \d")


def prose(page):
    """A page without what commands write and what has no record, in one line."""
    text = BLOCK.sub(" ", (ROOT / page).read_text(encoding="utf-8"))
    return " ".join(FENCED.sub(" ", text).split())


@pytest.mark.parametrize("quote", QUOTES, ids=lambda quote: f"{quote.page}: {quote.text}")
def test_a_quoted_figure_is_that_of_its_record(quote):
    assert quote.rendered in prose(quote.page), f"the record says: {quote.rendered}"


@pytest.mark.parametrize("page", QUOTING)
def test_every_figure_is_accounted_for(page):
    """Between marks that a study writes, in quotes.py, or between marks that say it has no record."""
    known = [quote.rendered for quote in QUOTES if quote.page == page]
    known += [text for where, text, _ in NO_RESULTS if where == page]
    assert unaccounted(prose(page), known) == []


def unaccounted(text, known):
    """The figures of a text, with the words around them, that no known piece holds."""
    covered = [match.span() for piece in known for match in re.finditer(re.escape(piece), text)]
    covered += [match.span() for match in re.finditer(r"`[^`]*`|\]\([^)]*\)", text)]
    return [
        text[max(0, figure.start() - 30) : figure.end() + 20]
        for figure in FIGURE.finditer(text)
        if not any(begin <= figure.start() and figure.end() <= end for begin, end in covered)
    ]


def test_figures_are_seen_and_numbers_of_sections_are_none():
    text = "R-P is 42.3, 41.5 / 42.3 and .97 or 3 %, see §4.1.2, Table D.1, 10⁻⁶, `x=0.1` and [17](b-2.3.md)."
    assert len(unaccounted(text, [])) == 5
    assert len(unaccounted(text, ["R-P is 42.3,", "or 3 %"])) == 3


@pytest.mark.parametrize(("page", "text", "why"), NO_RESULTS)
def test_what_is_no_result_still_stands_there(page, text, why):
    assert text in prose(page)
    assert why


def test_what_has_no_record_says_so():
    found = [
        (name(page), text)
        for page in PAGES
        for mark, text in BLOCK.findall(page.read_text(encoding="utf-8"))
        if mark == "no record"
    ]
    assert found
    assert [page for page, text in found if not re.search(r"\bno\s+record\b", text, re.IGNORECASE)] == []
