"""Fig. 6: is retrieval worse where σ is larger?"""

from pcme.reproduce.base import Claim, Column, Experiment, Plot, Table, registry
from pcme.reproduce.parts import DIRECTIONS, SIGMA_ROWS, rank_correlation, with_broad
from pcme.reproduce.setups import Setup

TITLES = tuple(f"bin {n}" for n in range(1, 11))
CLAIM = Claim("R@1 is higher in the lower half of σ", "PCME, J = 7", "PCME, J = 7", TITLES[:5], than=TITLES[5:])


def _table(setup: Setup, direction: str, title: str) -> Table:
    bins = [Column(name, f"{direction} {name}", "bins", x=n) for n, name in enumerate(TITLES, start=1)]
    columns = (*bins, rank_correlation(f"{direction} bins~recall", "bins"))
    rows = with_broad(SIGMA_ROWS, setup)
    return Table(title, rows, columns, Plot("columns", "R@1 (%)", "bins of rising σ", TITLES), claims=(CLAIM,))


@registry.register("fig6")
class Figure6(Experiment):
    """R@1 in ten bins of rising σ, both directions."""

    where = "Fig. 6"
    setups = ("aviary", "cub", "cub-pairs", "coco")
    differs = (
        "The paper's figure is of COCO 1K. Bins have equally many queries, by mean log σ. At test "
        "time J → ∞. An image of Aviary fits hundreds of captions, and finds one of them always."
    )

    def tables(self, setup: Setup) -> tuple[Table, ...]:
        """One per direction."""
        return tuple(_table(setup, *each) for each in DIRECTIONS.items())
