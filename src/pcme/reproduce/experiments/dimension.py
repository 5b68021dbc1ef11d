"""Fig. D.3: the embedding's dimension."""

from dataclasses import dataclass
from typing import ClassVar

from pcme.reproduce.base import PCME, Claim, Column, Experiment, Plot, Row, Table, registry
from pcme.reproduce.setups import World

__all__ = ["Dimension"]

DIMENSIONS = (32, 64, 128, 256)
METHODS = {"μ only": {"kind": "pcme-mu"}, "PCME": PCME}
COLUMNS = (
    Column("i2t R-P", "i2t r_precision"),
    Column("t2i R-P", "t2i r_precision"),
    Column("mean R-P", "both r_precision"),
)


@registry.register("dimension")
@dataclass(frozen=True)
class Dimension(Experiment):
    """The dimension D, for μ only and for PCME."""

    where: ClassVar[str] = "Fig. D.3"
    differs: ClassVar[str] = (
        "The weight of the KL term is on a mean over dimensions and stays the same; the paper's is "
        "on a sum. At test time J → ∞ instead of J = 7."
    )

    def tables(self, world: World) -> tuple[Table, ...]:
        """One table."""
        rows = tuple(
            Row(f"{name}, D = {dim}", method, (f"dim={dim}",), series=name, x=dim)
            for name, method in METHODS.items()
            for dim in DIMENSIONS
        )
        claims = tuple(
            Claim(
                f"PCME is better than μ only at D = {dim}",
                f"PCME, D = {dim}",
                f"μ only, D = {dim}",
                ("mean R-P",),
            )
            for dim in DIMENSIONS
        )
        plot = Plot("rows", "R-Precision (%)", "D", columns=("mean R-P",), log_x=True)
        return (Table("Dimension of the embedding", rows, COLUMNS, plot, claims=claims),)
