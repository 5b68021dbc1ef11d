"""Files and modules that the documentation names exist; generated pages are up to date."""

import pkgutil
import re

import pytest

from bench import pages
from tests.docs import reference
from tests.docs.pages import PAGES, ROOT, name


@pytest.mark.parametrize("page", [page for page in PAGES if name(page) != "CHANGELOG.md"], ids=name)
def test_named_files_and_symbols_exist(page):
    named = re.findall(r"`((?:src|tests|bench|studies|docs)/[\w./-]+)`", page.read_text())
    missing = [path for path in named if not (ROOT / path).exists()]
    symbols = set(re.findall(r"`(pcme(?:\.\w+)+)", page.read_text())) - {"pcme.plugins"}
    missing += [symbol for symbol in sorted(symbols) if not exists(symbol)]
    assert not missing, f"{name(page)} names {missing}"


def exists(symbol):
    """Whether a dotted name is a module, or an attribute of one."""
    try:
        pkgutil.resolve_name(symbol)
    except (AttributeError, ImportError):
        return False
    return True


@pytest.mark.parametrize("page", reference.PAGES)
def test_generated_pages_have_every_name(page):
    """Written by `python -m tests.docs.reference`; the wording may be older than the code's."""
    written = (ROOT / "docs" / "reference" / page).read_text(encoding="utf-8")
    assert entries(written) == entries(reference.PAGES[page]()), "run python -m tests.docs.reference"


def entries(text):
    """The headings of a page and the first cells of its tables."""
    return re.findall(r"^(?:##? .*|\| `[^`]*`)", text, re.MULTILINE)


@pytest.mark.parametrize(("page", "tables"), [(pages.SPEED, pages.speed_tables), (pages.README, pages.readme_tables)])
def test_tables_of_speed_are_those_of_the_record(page, tables):
    """Written by `make bench`."""
    rows = pages.read_rows(ROOT / "bench" / "results.json")
    for mark, table in tables(rows).items():
        assert f"<!-- {mark} -->\n{table}<!-- /{mark} -->" in page.read_text(encoding="utf-8")
