"""Fig. 3: the head modules as they are built here, with their sizes."""

from collections.abc import Sequence
from itertools import pairwise

from pcme.data.sources import ImageSource
from pcme.plots import Figure
from pcme.plots.boxes import Box, Heading, Point, diagram
from pcme.reproduce.base import registry
from pcme.reproduce.experiments.fig2 import shown
from pcme.reproduce.network import Branch, Encoder, Network, NetworkSheet

BOX, STEP, WIDE = 0.36, 0.52, 1.42
"""Inches: the height of a box, from one to the next, and its width."""
LEFT, RIGHT, CELL = 0.1, 1.62, 3.2
"""The columns of a cell, and its width."""
HEADING = 0.36


@registry.register("fig3")
class Figure3(NetworkSheet):
    """The heads of mean and σ, for images and for captions."""

    where = "Fig. 3"
    differs = "Drawn from the modules and their sizes; the paper's is drawn by hand, once for both modalities."
    title = "The heads"
    reading = (
        "From top to bottom; on the left what attends to sites, on the right the item as a whole. Blue boxes have "
        "weights, under a name stands the shape of what leaves it. s is the sigmoid, LN a LayerNorm, L2 brings to "
        "length one."
    )

    def draw(self, found: Network, images: ImageSource | None = None) -> Figure:
        """A cell for each head: images above captions, the mean beside σ."""
        boxes: list[Box] = []
        arrows: list[tuple[Point, Point]] = []
        headings, top = [], 0.06
        for encoder in (found.images, found.captions):
            heads = [("mean", encoder.mean), *([("σ", encoder.sigma)] if encoder.sigma else [])]
            ends = []
            for column, (name, branch) in enumerate(heads):
                headings.append(Heading(LEFT + column * CELL, top + 0.14, f"{encoder.of}: {name}"))
                ends.append(_cell(encoder, branch, (column * CELL, top + HEADING), boxes, arrows))
            top = max(ends) + 0.2
        return diagram(boxes, arrows, headings, height=top)


def _cell(
    encoder: Encoder, branch: Branch, corner: tuple[float, float], boxes: list[Box], arrows: list[tuple[Point, Point]]
) -> float:
    """Add a head; return its lower end."""
    x, y = corner
    attending = _attending(encoder, branch)
    whole = [("GAP" if encoder.of == "images" else "sentence vector") + f"\n{shown(encoder.whole)}"]
    whole += [f"linear\n{shown(branch.base)}"] if branch.base else []
    left = [_box(x + LEFT, y, row, text, kind) for row, (text, kind) in enumerate(attending)]
    right = [_box(x + RIGHT, y, row, text, "learned" if row else "given") for row, text in enumerate(whole)]
    row = max(len(left), len(right))
    middle = x + (LEFT + RIGHT) / 2
    after = [("+", "plain"), *((text, "learned" if text == "LN" else "plain") for text in branch.after)]
    below = [_box(middle, y, row + n, text, kind) for n, (text, kind) in enumerate(after)]
    name = "μ" if "L2" in branch.after else "log σ"
    below.append(_box(middle, y, row + len(after), f"{name}\n{shown(branch.out)}"))
    for chain in (left, right, below):
        arrows += [(one.bottom, other.top) for one, other in pairwise(chain)]
    arrows += [(chain[-1].bottom, below[0].top) for chain in (left, right) if chain]
    boxes += [*left, *right, *below]
    return below[-1].y + BOX


def _attending(encoder: Encoder, branch: Branch) -> Sequence[tuple[str, str]]:
    if branch.attended is None or branch.mapped is None:
        return ()
    steps = [
        (f"{'sites' if encoder.of == 'images' else 'words'}\n{shown(encoder.sites)}", "given"),
        (f"attention ({branch.hidden:,} hidden)\n{shown(branch.attended)}", "learned"),
        (f"linear\n{shown(branch.mapped)}", "learned"),
    ]
    return [*steps, *([("s", "plain")] if branch.squashed else [])]


def _box(x: float, y: float, row: int, text: str, kind: str = "plain") -> Box:
    return Box(x, y + row * STEP, WIDE, BOX, text, kind)
