"""Fig. 6: is retrieval worse where σ is larger?"""

from dataclasses import dataclass
from typing import ClassVar

from pcme.reproduce.base import PCME, Claim, Column, Experiment, Plot, Row, Table, registry
from pcme.reproduce.setups import World

__all__ = ["Figure6"]

BINS = range(1, 11)
ROWS = (
    Row("PCME, J = 7", PCME),
    Row("PCME, analytic (ours)", {"kind": "pcme"}),
    Row("PCME, overlap (ours)", {"kind": "pcme-overlap"}),
)
WAYS = {"i2t": "Images find captions", "t2i": "Captions find images"}


@registry.register("fig6")
@dataclass(frozen=True)
class Figure6(Experiment):
    """R@1 in ten bins of rising σ, both ways."""

    where: ClassVar[str] = "Fig. 6"
    worlds: ClassVar[tuple[str, ...]] = ("aviary", "cub", "coco")
    differs: ClassVar[str] = (
        "The paper's figure is of COCO 1K. Bins have equally many queries, by mean log σ. At test "
        "time J → ∞. An image of Aviary fits hundreds of captions, and finds one of them always."
    )

    def tables(self, world: World) -> tuple[Table, ...]:
        """Either way."""
        titles = tuple(f"bin {n}" for n in BINS)
        plot = Plot("columns", "R@1 (%)", "bins of rising σ", columns=titles)
        claim = Claim(
            "R@1 is higher in the lower half of σ",
            "PCME, J = 7",
            "PCME, J = 7",
            titles[:5],
            than=titles[5:],
        )
        return tuple(
            Table(title, ROWS, _columns(way), plot, claims=(claim,)) for way, title in WAYS.items()
        )


def _columns(way: str) -> tuple[Column, ...]:
    bins = (Column(f"bin {n}", f"{way} bin {n}", "bins", x=n) for n in BINS)
    order = Column("ρ", f"{way} bins~recall", "bins", percent=False, digits=2)
    return (*bins, order)
