"""Fig. E.3: plausible matches, whose labels may differ in ζ positions."""

from pcme.reproduce.base import Claim, Column, Experiment, Plot, Row, Table, registry
from pcme.reproduce.parts import DIRECTIONS, MEANS, OURS, PCME, VSRN, VSRN_AOQ, pvse

ROWS = (
    Row("PVSE K = 2, HNM", pvse(2)),
    Row("VSRN", VSRN),
    Row("VSRN + AOQ", VSRN_AOQ),
    Row("μ only", MEANS),
    Row("PCME, J = 7", PCME),
    OURS[1],
)
RADII = ("ζ = 0", "ζ = 1", "ζ = 2")
CLAIMS = (
    Claim("PCME is better than PVSE K = 2", "PCME, J = 7", "PVSE K = 2, HNM", ("mean",)),
    Claim("PCME gains from ζ = 0 to 2", "PCME, J = 7", "PCME, J = 7", RADII[2:], than=RADII[:1]),
    *(Claim(f"{row} loses", row, row, RADII[:1], than=RADII[2:]) for row in ("VSRN", "VSRN + AOQ")),
)


def _table(direction: str, title: str) -> Table:
    radii = [Column(name, f"{direction} pmrp@{z}", x=z) for z, name in enumerate(RADII)]
    columns = (*radii, Column("mean", f"{direction} pmrp"))
    return Table(title, ROWS, columns, Plot("columns", "PMRP (%)", "ζ", RADII), claims=CLAIMS)


@registry.register("pmrp", aliases=("fig-e3",))
class PlausibleMatches(Experiment):
    """Plausible-match R-Precision by ζ, in how many positions labels may differ."""

    where = "Fig. E.3, §C.1"
    setups = ("aviary", "coco")
    differs = (
        "VSRN and AOQ take the sites of the backbone for regions. On Aviary the labels are a bird's attributes, one of "
        "each kind: ζ = 1 allows nothing that ζ = 0 does not, and ζ = 2 one attribute; captions "
        "have the labels of their bird, of which they say a part. At test time J → ∞."
    )
    content = tuple(_table(*each) for each in DIRECTIONS.items())
