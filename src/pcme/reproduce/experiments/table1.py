"""Table 1 and Table E.1: one model, every score at test time, and what each costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pcme.reproduce import paper
from pcme.reproduce.base import (
    PAPER_SCORE,
    PCME,
    Claim,
    Column,
    Experiment,
    Plot,
    Row,
    Scoring,
    Table,
    registry,
)
from pcme.reproduce.setups import World

__all__ = ["Table1"]

COLUMNS = (
    Column("i2t R-P", "i2t r_precision"),
    Column("t2i R-P", "t2i r_precision"),
    Column("numbers an item", "numbers", "cost", percent=False, digits=0),
    Column("steps a pair", "work", "cost", percent=False, digits=0),
    Column("µs a pair", "microseconds", "cost", percent=False, digits=3),
)
PRECISION = ("i2t R-P", "t2i R-P")
PLOT = Plot("bars", "R-Precision (%)", columns=PRECISION)

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


@registry.register("table1")
@dataclass(frozen=True)
class Table1(Experiment):
    """Every score at test time, what it keeps of an item and how long a pair takes."""

    where: ClassVar[str] = "Table 1; Table E.1 and Fig. E.1"
    differs: ClassVar[str] = (
        "KL has the right sign and constant here, and what the paper calls JS is the mean of both "
        "KLs (docs/science/errata.md). A gallery keeps J samples of an item, not J². A step is a "
        "product and a sum; times are of one thread of a machine that does other things too."
    )

    def tables(self, world: World) -> tuple[Table, ...]:
        """The paper's model, and ours, whose own score is the overlap."""
        points = Row(
            "μ only: mean alone", {"kind": "pcme-mu"}, scoring=Scoring("mean"), paper="μ only, mean"
        )
        probabilities = (
            Row("PCME: match probability, J = 7", PCME, scoring=PAPER_SCORE, paper="match prob"),
            Row("PCME: match probability, J → ∞", PCME),
        )
        overlap = {"kind": "pcme-overlap"}
        return (
            Table(
                "PCME, trained with J = 7",
                (points, *_by_every_score("PCME", PCME), *probabilities),
                COLUMNS,
                PLOT,
                paper.SCORES,
                claims=CLAIMS,
            ),
            Table(
                "PCME with the overlap (ours)",
                (
                    *_by_every_score("overlap", overlap, paper_rows=False),
                    Row("overlap: overlap, its own", overlap),
                ),
                COLUMNS,
                PLOT,
            ),
        )


def _by_every_score(
    name: str, method: Mapping[str, Any], *, paper_rows: bool = True
) -> tuple[Row, ...]:
    return tuple(
        Row(f"{name}: {label}", method, scoring=Scoring(score), paper=row if paper_rows else None)
        for label, (score, row) in NAMED.items()
    )


CLAIMS = (
    Claim(
        "trained with σ, ranked by means alone, it beats training without σ",
        "PCME: mean alone", "μ only: mean alone", PRECISION,
    ),
    Claim(
        "the match probability ranks better than means alone",
        "PCME: match probability, J = 7", "PCME: mean alone", PRECISION,
    ),
    Claim(
        "2-Wasserstein ranks better than ELK",
        "PCME: 2-Wasserstein", "PCME: ELK", PRECISION,
    ),
    Claim(
        "ELK ranks better than JS", "PCME: ELK", "PCME: Jeffreys (the paper's JS)", PRECISION
    ),
    Claim(
        "JS ranks better than KL",
        "PCME: Jeffreys (the paper's JS)", "PCME: KL(query ‖ item)", PRECISION,
    ),
)  # fmt: skip
