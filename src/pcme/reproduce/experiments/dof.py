"""Table D.2: does σ need a number for each dimension?"""

from dataclasses import dataclass
from typing import ClassVar

from pcme.reproduce import paper
from pcme.reproduce.base import PCME, Claim, Column, Experiment, Plot, Row, Table, registry
from pcme.reproduce.setups import World

__all__ = ["DegreesOfFreedom"]

ROWS = (
    Row("μ only", {"kind": "pcme-mu"}, paper="PCME μ only"),
    Row("isotropic", {**PCME, "kind": "pcme-isotropic"}, paper="PCME isotropic"),
    Row("diagonal", PCME, paper="PCME"),
)
COLUMNS = (
    Column("i2t R-P", "i2t r_precision"),
    Column("t2i R-P", "t2i r_precision"),
    Column("images E[log σ]", "images log_sigma", "spread", percent=False, digits=2),
    Column("captions E[log σ]", "captions log_sigma", "spread", percent=False, digits=2),
)
PRECISION = ("i2t R-P", "t2i R-P")


@registry.register("dof")
@dataclass(frozen=True)
class DegreesOfFreedom(Experiment):
    """No σ, one σ an item, one σ a dimension."""

    where: ClassVar[str] = "Table D.2"
    differs: ClassVar[str] = "At test time J → ∞ instead of J = 7."

    def tables(self, world: World) -> tuple[Table, ...]:
        """One table."""
        claims = (
            Claim("one σ is better than none", "isotropic", "μ only", PRECISION),
            Claim("one σ a dimension is better than one", "diagonal", "isotropic", PRECISION),
        )
        plot = Plot("bars", "R-Precision (%)", columns=PRECISION)
        return (Table("PCME, J = 7", ROWS, COLUMNS, plot, paper.DEGREES, claims=claims),)
