"""Fig. 5: nine classes in the plane, and a caption that says next to nothing."""

from types import MappingProxyType

from pcme.reproduce.base import Asked, Claim, Column, Experiment, Row, Table, registry
from pcme.reproduce.parts import DRAWN_ROWS
from pcme.reproduce.setups import Setup

COVERED, BY_OTHERS = "in the generic 99 %", "in another's 99 %"
COLUMNS = (
    Column(COVERED, "captions in the generic one's 99 % region", "analysis"),
    Column(BY_OTHERS, "captions in another caption's 99 % region", "analysis"),
    Column("narrower than the generic", "captions narrower than the generic one", "analysis"),
    Column(
        "generic σ over others'", "σ of the generic caption over that of others", "analysis", percent=False, digits=2
    ),
    Column("nearest to their class", "captions nearest to their own class", "analysis"),
)
PLANE = Row("PCME in the plane", {})
"""The recipe as it stands, with its own method. Paper: §C.3."""


def _claims(row: str) -> tuple[Claim, Claim]:
    return (
        Claim(f"the generic caption covers most captions ({row})", row, row, (COVERED,), least=50.0),
        Claim(f"it covers more than another caption does ({row})", row, row, (COVERED,), (BY_OTHERS,)),
    )


@registry.register("fig5")
class Figure5(Experiment):
    """Images and captions of nine classes as ellipses in the plane, and the generic caption."""

    where = "Fig. 5"
    setups = ("aviary", "cub")
    recipes = MappingProxyType({"cub": "cub-toy"})
    differs = (
        "On CUB the recipe cub-toy, whose space is a plane: docs/guide/analyze.md says how it differs. On Aviary the "
        "usual network, its space projected to the plane in which images differ most; the first nine species."
    )

    def tables(self, setup: Setup) -> tuple[Table, ...]:
        """The network of the plane where the data has its classes, otherwise the usual rows."""
        rows = (PLANE,) if setup.name in self.recipes else DRAWN_ROWS
        claims = tuple(claim for row in rows for claim in _claims(row.label))
        return (Table("The generic caption", rows, COLUMNS, None, claims=claims, drawn=Asked("ellipses")),)
