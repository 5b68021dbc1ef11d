"""Fig. 7: does σ grow when pixels or words are taken away?"""

from pcme.reproduce.base import Claim, Column, Experiment, Plot, Table, registry
from pcme.reproduce.parts import SIGMA_ROWS, rank_correlation, with_broad
from pcme.reproduce.setups import Setup
from pcme.uncertainty.perturbation import RATIOS

TITLES = tuple(f"{100 * ratio:.0f} %" for ratio in RATIOS)


def spoiled(
    setup: Setup, kind: str, title: str, x: str = "erased (%)", claim: str = "σ is larger with half erased"
) -> Table:
    """Mean log σ under one kind of perturbation, by how much of an item it concerns."""
    columns = [
        Column(name, f"{kind} {ratio:g}", "erasing", percent=False, digits=2, x=100 * ratio)
        for name, ratio in zip(TITLES, RATIOS, strict=True)
    ]
    columns.append(rank_correlation(f"{kind} ~ratio", "erasing"))
    plot = Plot("columns", "mean log σ", x, columns=TITLES)
    claims = (Claim(claim, "PCME, J = 7", "PCME, J = 7", ("50 %",), ("0 %",)),)
    return Table(title, with_broad(SIGMA_ROWS, setup), tuple(columns), plot, claims=claims)


@registry.register("fig7")
class Figure7(Experiment):
    """Mean log σ as more and more pixels, or words, are erased."""

    where = "Fig. 7"
    differs = (
        "Of 300 images and 300 captions. In training a share of images and captions is erased too, by any ratio; "
        "the paper's Cutout erases up to a third of an image."
    )
    setups = ("aviary", "cub", "cub-pairs", "coco")

    def tables(self, setup: Setup) -> tuple[Table, ...]:
        """Images, and captions."""
        kinds = {"erased": "Images, pixels erased", "replaced": "Captions, words made unknown"}
        return tuple(spoiled(setup, *each) for each in kinds.items())
