"""Tables of handmade values, as a person reads them."""

from dataclasses import replace
from statistics import fmean

import pytest
from scipy import stats

from pcme.reproduce.base import Column
from pcme.reproduce.outcome import Difference, Training, read, record, write
from pcme.reproduce.tables import document, markdown, spent, spread
from tests.reproduce.tiny import RESULT, TABLE


def test_ours_stand_beside_the_papers_or_alone():
    assert markdown(TABLE).splitlines() == [
        "|  | i2t R-P | paper | log σ | paper |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| PVSE | 30.0 ± 7.1 | 22.35 | – |  |",
        "| PCME | 50.0 ± 0.0 | 26.28 | −3.50 ± 0.71 | −3.84 |",
    ]
    rows = tuple(replace(row, paper=(None, None)) for row in TABLE.rows)
    assert markdown(replace(TABLE, rows=rows)).splitlines()[0] == "|  | i2t R-P | log σ |"


@pytest.mark.parametrize(("values", "text"), [((0.5,), "50.0"), ((), "–"), ((None,), "–"), ((0.1, 0.3), "20.0 ± 14.1")])
def test_spread(values, text):
    assert spread(values, Column("", "")) == text


def test_a_page_says_where_what_how_and_in_what_it_differs():
    text = document(RESULT, picture="results/aviary-quick-table9")
    for part in (
        "# table9 on aviary, quick", "Handmade. In the paper: Table 9.", "over 2 seeds",
        "`pcme reproduce table9 --quick` (2 runs, 1 min of processor time for training)",
        "1,000 images, 4,000 captions; R-Precision by chance 15.0",
        "![Handmade. Unseen classes](results/aviary-quick-table9-1.svg)",
        "| what the paper finds | difference here | 95 % interval | in the paper | here? |",
        "| PCME is better | +20.0 ± 7.1 | −43.5 to +83.5 | +3.9 | level |",
        "How this differs from the paper: It is another world. Handmade too.",
    ):  # fmt: skip
        assert part in text, part
    assert "seeds" not in document(replace(RESULT, seeds=1)).splitlines()[2]


def test_runs_that_several_results_share_are_counted_once():
    assert spent([RESULT, RESULT]) == "2 runs, 1 min of processor time for training"
    again = replace(TABLE.rows[0], runs=(Training("ghi", 60.0, True),))
    more = replace(RESULT, tables=(replace(TABLE, rows=(again,)),))
    assert spent([RESULT, more]) == (
        "3 runs, 2 min of processor time for training, without what was interrupted of 1 of them"
    )


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((3.0,), "holds, by one seed"),
        ((-0.1,), "does not hold, by one seed"),
        ((0.0,), "level"),
        ((2.0, 2.1, 1.9), "holds"),
        ((-2.0, -2.1, -1.9), "does not hold"),
        ((0.5, -0.5, 0.1), "level"),
        ((1.0, 0.5, 2.0), "level"),  # 2.6 standard errors, t is 4.3
        ((1.0, 0.5, 2.0) * 4, "holds"),
    ],
)
def test_verdicts(values, verdict):
    assert Difference("", values, 1.0).verdict == verdict


def test_an_interval_over_seeds_is_that_of_students_t():
    values = (1.0, 0.5, 2.0)
    low, high = Difference("", values, 1.0).interval
    expected = stats.t.interval(0.95, 2, loc=fmean(values), scale=stats.sem(values))
    assert (low, high) == pytest.approx(expected)
    assert Difference("", (3.0,), 1.0).interval is None


def test_claims_of_one_seed_have_no_column_of_intervals():
    table = replace(TABLE, differences=(Difference("PCME is better", (25.0,), 3.93),))
    text = document(replace(RESULT, seeds=1, tables=(table,)))
    assert "| what the paper finds | difference here | in the paper | here? |" in text
    assert "| PCME is better | +25.0 | +3.9 | holds, by one seed |" in text


def test_a_result_is_read_back_as_it_was_written_and_named_by_its_world_and_length(tmp_path):
    write(RESULT, tmp_path / "result.json")
    assert read(tmp_path / "result.json") == RESULT
    assert record(RESULT)["tables"][0]["rows"][0]["values"][1] == (None, None)
    assert RESULT.name == "aviary-quick-table9"
    assert replace(RESULT, quick=False).name == "aviary-table9"
    assert replace(RESULT, folds=True).name == "aviary-quick-folds-table9"
