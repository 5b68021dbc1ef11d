"""Fig. 7: does σ grow when pixels or words are taken away?"""

from pcme.reproduce.base import Claim, Column, Experiment, Plot, Row, Table, registry
from pcme.reproduce.parts import OURS, PCME
from pcme.uncertainty.perturbation import RATIOS

ROWS = (Row("PCME, J = 7", PCME), *OURS)
TITLES = tuple(f"{100 * ratio:.0f} %" for ratio in RATIOS)
CLAIM = Claim("σ is larger with half erased", ROWS[0].label, ROWS[0].label, ("50 %",), ("0 %",))


def _table(kind: str, title: str) -> Table:
    columns = [
        Column(name, f"{kind} {ratio:g}", "erasing", percent=False, digits=2, x=100 * ratio)
        for name, ratio in zip(TITLES, RATIOS, strict=True)
    ]
    order = Column("ρ", f"{kind} ~ratio", "erasing", percent=False, digits=2)
    plot = Plot("columns", "mean log σ", "erased (%)", columns=TITLES)
    return Table(title, ROWS, (*columns, order), plot, claims=(CLAIM,))


@registry.register("fig7")
class Figure7(Experiment):
    """Mean log σ as more and more pixels, or words, are erased."""

    where = "Fig. 7; Fig. F.1"
    setups = ("aviary", "cub", "coco")
    differs = (
        "Of 300 images and 300 captions. In training a share of images and captions is erased too, "
        "by any ratio; the paper's Cutout erases up to a third of an image."
    )
    content = (_table("erased", "Images, pixels erased"), _table("replaced", "Captions, words made unknown"))
