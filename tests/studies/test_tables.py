"""The tables of the docs are those of the studies' records, byte for byte."""

from importlib import import_module

import pytest

from studies import readme
from studies.accuracy import __main__ as accuracy
from studies.real.entries import STUDIES
from studies.real.tables import tables as real_tables
from studies.tables import DOCS, read_record, spread, write_tables


def written(name):
    """{document: {mark: table}} of a study, from its record."""
    if name in STUDIES:
        module = import_module("studies.real.tables")
        return module.DOCUMENT, real_tables(name, read_record(module.RECORD)[name])
    module = import_module(f"studies.{name}.__main__")
    return module.DOCUMENT, module.tables(read_record(module.RECORD))


NAMES = ["truth", "confidence", "algebra", *STUDIES]


@pytest.mark.parametrize("name", NAMES)
def test_a_record_gives_the_tables_of_its_document(name, tmp_path):
    document, tables = written(name)
    copy = tmp_path / document.name
    copy.write_bytes(document.read_bytes())
    write_tables(copy, tables)
    assert tables
    assert copy.read_text() == document.read_text()


def test_the_page_of_accuracy_and_the_readme_show_what_the_records_hold():
    assert accuracy.page(read_record(accuracy.RECORD)) == accuracy.DOCUMENT.read_text()
    text = readme.DOCUMENT.read_text()
    for mark, table in readme.tables().items():
        assert f"<!-- {mark} -->\n{table}<!-- /{mark} -->" in text


def test_every_mark_in_the_docs_is_written_by_a_study():
    marks = {mark for name in NAMES for mark in written(name)[1]}
    pages = [page.read_text() for page in DOCS.rglob("*.md")]
    begun = {line[5:-4] for page in pages for line in page.splitlines() if line.startswith("<!-- ")}
    studied = {mark for mark in begun if ":" in mark and not mark.startswith("/")}
    assert studied == marks


def test_a_table_replaces_what_stands_between_its_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x -->\nold\n<!-- /x -->\nb\n")
    write_tables(page, {"x": "new\n"})
    assert page.read_text() == "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"


def test_one_seed_has_no_spread():
    assert (spread([1.0]), spread([1.0, 2.0], digits=2)) == ("1.0", "1.50 ± 0.71")
