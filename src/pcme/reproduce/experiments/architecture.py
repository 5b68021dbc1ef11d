"""Table D.3: attention in the heads of μ and σ, and a squashed σ."""

from dataclasses import dataclass
from typing import ClassVar

from pcme.reproduce import paper
from pcme.reproduce.base import PCME, Claim, Column, Experiment, Plot, Row, Table, registry
from pcme.reproduce.setups import World

__all__ = ["Architecture"]

ATTENTION = (
    Row("neither", {**PCME, "mean_attention": False, "sigma_attention": False}, paper="neither"),
    Row("σ alone", {**PCME, "mean_attention": False}, paper="σ alone"),
    Row("μ alone", {**PCME, "sigma_attention": False}, paper="μ alone"),
    Row("both", PCME, paper="both"),
)
SQUASHED = (
    Row("with", {**PCME, "sigma_squashed": True}, paper="with"),
    Row("without", PCME, paper="without"),
)
COLUMNS = (Column("i2t R-P", "i2t r_precision"), Column("t2i R-P", "t2i r_precision"))
PRECISION = ("i2t R-P", "t2i R-P")


@registry.register("architecture")
@dataclass(frozen=True)
class Architecture(Experiment):
    """The heads: attention for μ, for σ, for both; sigmoid and layer norm in σ's."""

    where: ClassVar[str] = "Table D.3"
    differs: ClassVar[str] = "At test time J → ∞ instead of J = 7."

    def tables(self, world: World) -> tuple[Table, ...]:
        """Attention, and squashing."""
        plot = Plot("bars", "R-Precision (%)")
        attention = (
            Claim("attention for both is better than for μ alone", "both", "μ alone", PRECISION),
            Claim("attention for both is better than for neither", "both", "neither", PRECISION),
        )
        squashed = (Claim("an unsquashed σ is better", "without", "with", PRECISION),)
        return (
            Table(
                "Which heads have local attention", ATTENTION, COLUMNS, plot, paper.ARCHITECTURE,
                claims=attention,
            ),
            Table(
                "Sigmoid and LN in the σ head", SQUASHED, COLUMNS, plot, paper.SQUASHING,
                claims=squashed,
            ),
        )  # fmt: skip
