"""The paper's values: some against what was read by eye, all against each other."""

import pytest

from pcme.errors import ConfigError
from pcme.reproduce import paper
from pcme.reproduce.paper import Source

SOURCES = {name: part for name, part in vars(paper).items() if isinstance(part, Source)}


@pytest.mark.parametrize(
    ("source", "row", "column", "value"),
    [
        (paper.SCORES, "KL", "i2t r_precision", 21.99),
        (paper.SCORES, "2-Wasserstein", "t2i r_precision", 26.69),
        (paper.CUB_UNSEEN, "PVSE K=4, HNM", "i2t recall@1", 47.76),
        (paper.CUB_UNSEEN, "PCME", "t2i r_precision", 26.77),
        (paper.CUB_SEEN, "PCME μ only", "t2i recall@1", 26.94),
        (paper.COCO_1K, "PVSE K=2 + SHM", "t2i 1k pmrp", 39.4),
        (paper.COCO_5K, "PCME", "i2t recall@10", 83.6),
        (paper.COCO_5K, "VSE++", "i2t pmrp", None),
        (paper.TABLE_3, "VSRN + AOQ", "t2i recall@1", 41.1),
        (paper.REGULARISATION, "neither", "images log_sigma", -13.01),
        (paper.REGULARISATION, "both", "t2i map@r", 13.84),
        (paper.DEGREES, "PCME isotropic", "i2t r_precision", 25.7),
        (paper.ARCHITECTURE, "σ alone", "i2t r_precision", 24.65),
        (paper.SQUASHING, "with", "t2i r_precision", 24.58),
    ],
)
def test_values_read_by_eye(source, row, column, value):
    assert source.value(row, column) == value


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_every_cell_has_a_value_with_the_digits_it_was_typed_with(source):
    assert {len(values) for values in source.rows.values()} == {len(source.columns)}
    assert len(set(source.columns)) == len(source.columns)
    typed = [value for values in source.rows.values() for value in values if value is not None]
    # those of MINING are means of typed values
    assert source is paper.MINING or all(round(v, source.digits) == v for v in typed)


def test_table_2_is_the_full_table_rounded():
    """As printed in the main text; the last of them rounds up."""
    main = {
        "VSE0": (22.4, 44.2, 22.6, 32.7),
        "PVSE K=1, HNM": (22.3, 40.9, 20.5, 31.7),
        "PVSE K=2, HNM": (19.7, 47.3, 21.2, 28.0),
        "PVSE K=4, HNM": (18.4, 47.8, 19.9, 34.4),
        "PCME μ only": (24.7, 46.4, 25.6, 35.5),
        "PCME": (26.3, 46.9, 26.8, 35.2),
    }
    for row, values in main.items():
        assert paper.CUB_UNSEEN.rows[row] == pytest.approx(values, abs=0.051)


def test_the_paper_agrees_with_itself_where_it_says_the_same_twice():
    pcme = paper.CUB_UNSEEN.rows["PCME"]
    assert paper.SCORES.rows["match prob"] == (pcme[0], pcme[2])
    assert paper.ARCHITECTURE.rows["both"] == paper.SQUASHING.rows["without"] == (pcme[0], pcme[2])
    assert paper.DEGREES.rows["PCME"] == pytest.approx((pcme[0], pcme[2]), abs=0.05)


def test_table_3_is_as_printed_with_three_cells_that_contradict_the_full_table():
    printed = {
        "VSE++": (None, 64.6, None, 52.0, None, 41.3, None, 30.3),
        "PVSE K=1": (40.3, 66.7, 41.8, 53.5, 29.3, 41.7, 30.1, 30.6),
        "PVSE K=2": (42.8, 69.2, 43.6, 55.2, 31.8, 45.2, 32.0, 32.4),
        "VSRN": (41.2, 76.2, 42.4, 62.8, 29.7, 53.0, 29.9, 40.5),
        "VSRN + AOQ": (44.7, 77.5, 45.6, 63.5, 33.0, 55.1, 33.5, 41.1),
        "PCME μ only": (45.0, 68.0, 45.9, 54.6, 34.0, 43.5, 34.3, 31.7),
        "PCME": (45.0, 68.8, 46.0, 54.6, 34.1, 44.2, 34.4, 31.9),
    }
    assert paper.TABLE_3.rows == printed
    full = [paper.COCO_1K.value(*cell) for cell in paper._CONTRADICTIONS]
    assert full == [41.9, 43.7, 45.1]


def test_the_means_of_hnm_are_those_of_the_text_in_section_e2():
    rows = [paper.MINING.rows[f"PVSE K={k}, HNM"] for k in (1, 2, 4)]
    assert [round(precision, 1) for precision, _ in rows] == [21.4, 20.4, 19.2]
    assert [recall for _, recall in rows] == pytest.approx([36.3, 37.6, 41.1], abs=0.051)


def test_an_unknown_row_is_named_and_an_unknown_column_has_no_value():
    with pytest.raises(ConfigError, match='no row "PCMME"'):
        paper.DEGREES.value("PCMME", "i2t r_precision")
    assert paper.DEGREES.value("PCME", "i2t recall@1") is None
