"""Fig. F.3 and F.4: uncertain images and captions, what they find, and what was written for them."""

from pcme.reproduce.base import Asked, Claim, Column, Experiment, Table, registry
from pcme.reproduce.parts import DRAWN_ROWS

SIDES = ("images", "captions")
COLUMNS = tuple(
    Column(f"{side}, R@1 of the {end}", f"R@1 of the {end} 5 % of {side}", "analysis")
    for side in SIDES
    for end in ("widest", "narrowest")
)
CLAIMS = tuple(
    Claim(
        f"uncertain {side} find less ({row.label})",
        row.label, row.label, (f"{side}, R@1 of the narrowest",), (f"{side}, R@1 of the widest",),
    )
    for row in DRAWN_ROWS
    for side in SIDES
)  # fmt: skip


@registry.register("fig-f3", aliases=("fig-f4",))
class FigureF3(Experiment):
    """The most and the least uncertain images and captions, with what they find."""

    where = "Fig. F.3 and Fig. F.4"
    setups = ("aviary", "cub", "cub-pairs", "coco")
    differs = "The paper's are of COCO, and of uncertain items alone; the certain ones stand beside them here."
    content = (Table("The ends of σ", DRAWN_ROWS, COLUMNS, None, claims=CLAIMS, drawn=Asked("extremes")),)
