"""Fig. F.2: which words do narrow and wide items have?"""

from pcme.reproduce.base import Asked, Column, Experiment, Table, registry
from pcme.reproduce.parts import DRAWN_ROWS

COLUMNS = tuple(
    Column(f"ρ of σ and length, {side}", f"ρ of σ and number of words, {side}", "analysis", percent=False, digits=2)
    for side in ("images", "captions")
)


@registry.register("fig-f2")
class FigureF2(Experiment):
    """The words of five bins of rising σ by TF-IDF, of images and of captions."""

    where = "Fig. F.2"
    setups = ("aviary", "cub", "cub-pairs", "coco")
    differs = "The paper's is of COCO, and draws the words as clouds; a bin is a collection of its own in the formula."
    content = (Table("Words and σ", DRAWN_ROWS, COLUMNS, None, drawn=Asked("words")),)
