"""Fig. 8: does mixing intersect, and does erasing include?"""

from pcme.reproduce.base import Asked, Claim, Column, Experiment, Row, Table, registry
from pcme.reproduce.parts import DRAWN_ROWS

RELATIONS = {
    "erased image": "an image lies in the same one, partly erased",
    "mixed images": "what two images share lies in the two mixed",
    "erased caption": "a caption lies in the same one, partly erased",
    "joined captions": "two captions of an image, joined, lie in both",
}
COLUMNS = tuple(
    Column(title, f"{relation}: holds for a share of pairs", "analysis") for title, relation in RELATIONS.items()
)
HALF = 50.0


def _claims(row: Row) -> tuple[Claim, Claim]:
    return (
        Claim(
            f"erasing is inclusion, for most images ({row.label})", row.label, row.label, ("erased image",), least=HALF
        ),
        Claim(
            f"mixing is intersection, for most pairs ({row.label})", row.label, row.label, ("mixed images",), least=HALF
        ),
    )


@registry.register("fig8")
class Figure8(Experiment):
    """Set algebra: mixed images as intersections, erased ones as inclusions, for many pairs."""

    where = "Fig. 8"
    setups = ("aviary", "cub", "cub-pairs", "coco")
    differs = (
        "The paper shows two images. Here a relation is a share of 200 pairs: those of which the one covers the other "
        "more than the reverse, and more than in another pair. Captions are erased and joined, too."
    )
    content = (
        Table(
            "Share of pairs for which a relation holds", DRAWN_ROWS, COLUMNS, None,
            claims=tuple(claim for row in DRAWN_ROWS for claim in _claims(row)), drawn=Asked("algebra"),
        ),
    )  # fmt: skip
