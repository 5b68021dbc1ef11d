"""Fig. 6: is retrieval worse where σ is larger?"""

from pcme.reproduce.base import Claim, Column, Experiment, Plot, Row, Table, registry
from pcme.reproduce.parts import DIRECTIONS, OURS, PCME

ROWS = (Row("PCME, J = 7", PCME), *OURS)
BINS = range(1, 11)
TITLES = tuple(f"bin {n}" for n in BINS)
CLAIM = Claim("R@1 is higher in the lower half of σ", "PCME, J = 7", "PCME, J = 7", TITLES[:5], than=TITLES[5:])


def _table(direction: str, title: str) -> Table:
    bins = [Column(f"bin {n}", f"{direction} bin {n}", "bins", x=n) for n in BINS]
    order = Column("ρ", f"{direction} bins~recall", "bins", percent=False, digits=2)
    plot = Plot("columns", "R@1 (%)", "bins of rising σ", columns=TITLES)
    return Table(title, ROWS, (*bins, order), plot, claims=(CLAIM,))


@registry.register("fig6")
class Figure6(Experiment):
    """R@1 in ten bins of rising σ, both directions."""

    where = "Fig. 6"
    setups = ("aviary", "cub", "coco")
    differs = (
        "The paper's figure is of COCO 1K. Bins have equally many queries, by mean log σ. At test "
        "time J → ∞. An image of Aviary fits hundreds of captions, and finds one of them always."
    )
    content = tuple(_table(*each) for each in DIRECTIONS.items())
