"""Fig. E.3: plausible matches, the labels of which may differ in ζ places."""

from dataclasses import dataclass
from typing import ClassVar

from pcme.reproduce.base import PCME, Claim, Column, Experiment, Plot, Row, Table, pvse, registry
from pcme.reproduce.setups import World

__all__ = ["PlausibleMatches"]

ROWS = (
    Row("PVSE K = 2, HNM", pvse(2)),
    Row("μ only", {"kind": "pcme-mu"}),
    Row("PCME, J = 7", PCME),
    Row("PCME, overlap (ours)", {"kind": "pcme-overlap"}),
)
WAYS = {"i2t": "Images find captions", "t2i": "Captions find images"}


@registry.register("pmrp")
@dataclass(frozen=True)
class PlausibleMatches(Experiment):
    """Plausible-match R-Precision by ζ, in how many places labels may differ."""

    where: ClassVar[str] = "Fig. E.3, §C.1"
    worlds: ClassVar[tuple[str, ...]] = ("aviary", "coco")
    differs: ClassVar[str] = (
        "VSRN and AOQ are not built here. On Aviary the labels are a bird's attributes, one of "
        "each kind: ζ = 1 allows nothing that ζ = 0 does not, and ζ = 2 one attribute; captions "
        "have the labels of their bird, of which they say a part. At test time J → ∞."
    )

    def tables(self, world: World) -> tuple[Table, ...]:
        """Either way."""
        plot = Plot("columns", "PMRP (%)", "ζ", columns=("ζ = 0", "ζ = 1", "ζ = 2"))
        claims = (
            Claim("PCME is better than PVSE K = 2", "PCME, J = 7", "PVSE K = 2, HNM", ("mean",)),
            Claim(
                "PCME gains from ζ = 0 to 2",
                "PCME, J = 7",
                "PCME, J = 7",
                ("ζ = 2",),
                than=("ζ = 0",),
            ),
        )
        return tuple(
            Table(title, ROWS, _columns(way), plot, claims=claims) for way, title in WAYS.items()
        )


def _columns(way: str) -> tuple[Column, ...]:
    radii = (Column(f"ζ = {z}", f"{way} pmrp@{z}", x=z) for z in (0, 1, 2))
    return (*radii, Column("mean", f"{way} pmrp"))
