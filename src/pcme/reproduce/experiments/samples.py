"""Fig. D.2 and E.1: how many samples, in training and at test time; and none at all."""

from pcme.reproduce.base import Claim, Column, Experiment, Plot, Row, Scoring, Table, registry
from pcme.reproduce.parts import PCME, PRECISION, PRECISIONS

BEYOND = 30.0
"""The position of J → ∞ in the figures."""
TRAINED = (
    *(Row(f"J = {j}", PCME if j == 7 else {**PCME, "samples": j}, x=j) for j in (1, 3, 7, 15)),  # 7 is the default
    Row("J → ∞", {"kind": "pcme"}, x=BEYOND),
)
TESTED = (
    *(
        Row(f"J = {j}", PCME, scoring=Scoring(params={"method": "sampled", "samples": j}), x=j)
        for j in (1, 2, 3, 5, 7, 15)
    ),
    Row("J → ∞", PCME, x=BEYOND),
)
COLUMNS = (*PRECISIONS, Column("t2i R@1", "t2i recall@1"))
PLOT = Plot("rows", "R-Precision (%)", "J", PRECISION, log_x=True, names={BEYOND: "∞"})


def _table(title: str, rows: tuple[Row, ...], claim: str, *, folds: bool = False) -> Table:
    return Table(title, rows, COLUMNS, PLOT, claims=(Claim(claim, "J = 7", "J = 1", PRECISION),), folds=folds)


@registry.register("samples", aliases=("fig-d2", "fig-e1"))
class Samples(Experiment):
    """The number of samples J, in training and at test time, and its limit J → ∞."""

    where = "Fig. D.2 and Fig. E.1"
    differs = "J → ∞ is the analytic match probability, which the paper does not have."
    content = (
        _table("J in training", TRAINED, "more samples in training are better", folds=True),
        _table("J at test time", TESTED, "more samples at test are better"),
    )
