"""Fig. 7: does σ grow when pixels or words are taken away?"""

from dataclasses import dataclass
from typing import ClassVar

from pcme.reproduce.base import PCME, Claim, Column, Experiment, Plot, Row, Table, registry
from pcme.reproduce.setups import World
from pcme.uncertainty.perturbation import RATIOS

__all__ = ["Figure7"]

ROWS = (
    Row("PCME, J = 7", PCME),
    Row("PCME, analytic (ours)", {"kind": "pcme"}),
    Row("PCME, overlap (ours)", {"kind": "pcme-overlap"}),
)
KINDS = {"erased": "Images, pixels erased", "replaced": "Captions, words made unknown"}


@registry.register("fig7")
@dataclass(frozen=True)
class Figure7(Experiment):
    """Mean log σ as more and more pixels, or words, are erased."""

    where: ClassVar[str] = "Fig. 7; Fig. F.1"
    worlds: ClassVar[tuple[str, ...]] = ("aviary", "cub", "coco")
    differs: ClassVar[str] = (
        "Of 300 images and 300 captions. In training a share of images and captions is erased too, "
        "by any ratio; the paper's Cutout erases up to a third of an image."
    )

    def tables(self, world: World) -> tuple[Table, ...]:
        """Images, and captions."""
        titles = tuple(f"{100 * ratio:.0f} %" for ratio in RATIOS)
        claim = Claim(
            "σ is larger with half erased", "PCME, J = 7", "PCME, J = 7", ("50 %",), than=("0 %",)
        )
        return tuple(
            Table(
                title,
                ROWS,
                _columns(kind),
                Plot("columns", "mean log σ", "erased (%)", columns=titles),
                claims=(claim,),
            )
            for kind, title in KINDS.items()
        )


def _columns(kind: str) -> tuple[Column, ...]:
    ratios = (
        Column(
            f"{100 * ratio:.0f} %",
            f"{kind} {ratio:g}",
            "erasing",
            percent=False,
            digits=2,
            x=100 * ratio,
        )
        for ratio in RATIOS
    )
    order = Column("ρ", f"{kind} ~ratio", "erasing", percent=False, digits=2)
    return (*ratios, order)
