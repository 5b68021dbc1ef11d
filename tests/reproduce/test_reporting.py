"""The document of all results: from records alone, with what is missing and how to make it."""

from dataclasses import replace
from pathlib import Path

import pytest

from pcme.errors import ConfigError, FormatError
from pcme.reproduce import report
from pcme.reproduce.outcome import Difference, write
from pcme.reproduce.reporting import read_results, text
from tests.reproduce.tiny import RESULT


@pytest.fixture
def made(tmp_path):
    folder = tmp_path / "runs" / "results"
    folder.mkdir(parents=True)
    for experiment in ("table2", "dof"):
        result = replace(RESULT, experiment=experiment)
        write(result, folder / f"{result.name}.json")
    return folder


def test_the_document_shows_every_record_and_its_pictures(tmp_path, made):
    out = tmp_path / "docs" / "RESULTS.md"
    found = report(out, source=made)
    written = out.read_text()
    assert [result.experiment for result in found] == ["table2", "dof"]
    assert written.index("### table2") < written.index("### dof")
    for result in found:
        assert f"RESULTS/{result.name}-1.svg" in written
        assert (out.parent / "RESULTS" / f"{result.name}-1.svg").is_file()
        assert (out.parent / "RESULTS" / f"{result.name}.json").is_file()
    assert not list((out.parent / "RESULTS").glob("*.png"))
    assert "| [table2 on aviary, quick](#table2-on-aviary-quick) | Table 9 | 2 | 1 of 1 | 1 level |" in written
    assert written.count("It is another world.") == 1, "said once for all that is of one world"
    assert written.count("Handmade too.") == 2
    out.unlink()
    report(out)
    assert out.read_text() == written, "the records that were copied are enough"


def test_it_says_what_was_not_reproduced_and_the_command(tmp_path, made):
    out = tmp_path / "RESULTS.md"
    report(out, source=made)
    missing = out.read_text().split("## Not reproduced here")[1]
    assert "`pcme reproduce all --data aviary`" in missing, "the records are of quick runs"
    assert "`pcme reproduce all --data cub --data-root PATH`" in missing
    assert "table3" in missing
    assert "MS-COCO" in missing
    write(replace(RESULT, experiment="dof", quick=False), made / "aviary-dof.json")
    report(out, source=made)
    aviary = out.read_text().split("* In full on aviary: ")[1].splitlines()[0]
    assert "dof" not in aviary
    assert "table2" in aviary


def test_the_documentation_is_what_its_records_say():
    """Made again with `pcme reproduce report --tables-only --out docs/results/reproduction.md`."""
    docs = Path(__file__).parents[2] / "docs"
    page = docs / "results" / "reproduction.md"
    records = read_results(page.with_suffix(""))
    assert page.read_text() == text(records, "reproduction", figures=False)


def test_the_contents_count_signs_however_sure_the_seeds_are():
    """Its column is headed "findings with the same sign here"."""
    table = RESULT.tables[0]
    differences = tuple(Difference("", values, 1.0) for values in ((9.0, -1.0), (-2.0, -2.1), (1.0, 1.1)))
    found = text([replace(RESULT, tables=(replace(table, differences=differences),))], "results")
    assert "| Table 9 | 2 | 2 of 3 | 1 hold, 1 level, 1 do not hold |" in found


@pytest.mark.parametrize(
    ("source", "message"), [("none", "none: not found"), ("", "no results"), (None, "pcme reproduce report --results")]
)
def test_without_results_the_source_is_named_and_nothing_is_made(tmp_path, source, message):
    out = tmp_path / "docs" / "RESULTS.md"
    with pytest.raises(ConfigError, match=message):
        report(out, source=source if source is None else tmp_path / source)
    assert not out.parent.exists()


@pytest.mark.parametrize("source", [None, "results"])
@pytest.mark.parametrize("record", ["[]", "null", '[{"format": 1}]', "3", "{}"])
def test_json_of_something_else_is_an_error(tmp_path, record, source):
    """`pcme evaluate --out` writes a list, for one."""
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "summary.json").write_text(record)
    with pytest.raises(FormatError, match=r"summary\.json"):
        report(tmp_path / "results.md", source=source and tmp_path / source)
