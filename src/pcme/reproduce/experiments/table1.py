"""Table 1 and Table E.1: one model, every score at test time, and what each costs."""

from collections.abc import Mapping
from typing import Any

from pcme.reproduce import paper
from pcme.reproduce.base import PAPER_SCORE, Claim, Column, Experiment, Row, Scoring, Table, registry
from pcme.reproduce.parts import MEANS, PCME, PRECISION, PRECISION_BARS, PRECISIONS

COLUMNS = (
    *PRECISIONS,
    Column("numbers an item", "numbers", "cost", percent=False, digits=0),
    Column("steps a pair", "work", "cost", percent=False, digits=0),
    Column("µs a pair", "microseconds", "cost", percent=False, digits=3),
)
NAMED = {
    "mean alone": ("mean", "mean"),
    "KL(query ‖ item)": ("kl", "KL"),
    "KL(item ‖ query)": ("reverse_kl", None),
    "Jeffreys (the paper's JS)": ("jeffreys", "JS"),
    "ELK": ("elk", "ELK"),
    "Bhattacharyya": ("bhattacharyya", "Bhattacharyya"),
    "2-Wasserstein": ("w2", "2-Wasserstein"),
    "expected squared distance (CSD)": ("csd", None),
    "average L2, J = 7": ("average_l2", "average L2"),
}
"""{label: (score, the paper's row)}."""


def _by_every_score(name: str, method: Mapping[str, Any], *, paper_rows: bool = True) -> tuple[Row, ...]:
    return tuple(
        Row(f"{name}: {label}", method, scoring=Scoring(score), paper=row if paper_rows else None)
        for label, (score, row) in NAMED.items()
    )


OVERLAP = {"kind": "pcme-overlap"}
ROWS = (
    Row("μ only: mean alone", MEANS, scoring=Scoring("mean"), paper="μ only, mean"),
    *_by_every_score("PCME", PCME),
    Row("PCME: match probability, J = 7", PCME, scoring=PAPER_SCORE, paper="match prob"),
    Row("PCME: match probability, J → ∞", PCME),
)
OVERLAP_ROWS = (*_by_every_score("overlap", OVERLAP, paper_rows=False), Row("overlap: overlap, its own", OVERLAP))


def _claim(text: str, above: str, below: str) -> Claim:
    return Claim(text, f"PCME: {above}", below, PRECISION)


JS = "Jeffreys (the paper's JS)"
CLAIMS = (
    _claim("trained with σ, ranked by means alone, it beats training without σ", "mean alone", "μ only: mean alone"),
    _claim("the match probability ranks better than means alone", "match probability, J = 7", "PCME: mean alone"),
    _claim("2-Wasserstein ranks better than ELK", "2-Wasserstein", "PCME: ELK"),
    _claim("ELK ranks better than JS", "ELK", f"PCME: {JS}"),
    _claim("JS ranks better than KL", JS, "PCME: KL(query ‖ item)"),
)


@registry.register("table1", aliases=("table-e1",))
class Table1(Experiment):
    """Every score at test time, what it keeps of an item and how long a pair takes."""

    where = "Table 1; Table E.1 and Fig. E.1"
    differs = (
        "KL has the right sign and constant here, and what the paper calls JS is the mean of both "
        "KLs (docs/science/errata.md). A gallery keeps J samples of an item, not J². A step is a "
        "product and a sum; times are of one thread of a machine that does other things too."
    )
    content = (
        Table("PCME, trained with J = 7", ROWS, COLUMNS, PRECISION_BARS, paper.SCORES, claims=CLAIMS),
        Table("PCME with the overlap (ours)", OVERLAP_ROWS, COLUMNS, PRECISION_BARS),
    )
