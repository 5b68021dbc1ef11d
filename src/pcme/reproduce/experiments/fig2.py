"""Fig. 2: the method as it is built here, from the modules of a recipe."""

from pcme.data.sources import ImageSource
from pcme.plots import Figure
from pcme.plots.boxes import Box, Heading, Point, diagram
from pcme.reproduce.base import registry
from pcme.reproduce.network import Encoder, Network, NetworkSheet, Shape

ROW, GAP, TOP = 1.12, 0.46, 0.42
"""Inches: the height of a tower, the room between the two, and that above them."""
INPUT, BACKBONE, SITES, HEAD, GAUSSIAN, SCORE = (
    (0.06, 0.98), (1.22, 0.98), (2.38, 0.88), (3.44, 0.9), (4.54, 0.8), (5.54, 0.8),
)  # fmt: skip
"""The left end and the width of each column."""


@registry.register("fig2")
class Figure2(NetworkSheet):
    """The two encoders, their heads and what compares them."""

    where = "Fig. 2"
    differs = "Drawn from the modules and their sizes; the paper's is drawn by hand."
    title = "The network"
    reading = (
        "Blue boxes have weights; under a name stands the shape of what leaves it, for one image and one caption of "
        "eight words. A dashed box is given."
    )

    def draw(self, found: Network, images: ImageSource | None = None) -> Figure:
        """Two towers, one above the other, and the score at their end."""
        boxes: list[Box] = []
        arrows: list[tuple[Point, Point]] = []
        ends = []
        for number, encoder in enumerate((found.images, found.captions)):
            ends.append(_tower(encoder, TOP + number * (ROW + GAP), boxes, arrows))
        height = TOP + 2 * ROW + GAP
        score = Box(SCORE[0], TOP, SCORE[1], height - TOP, f"{found.score}\nof a pair", "learned")
        arrows += [(end.right, (score.x, end.right[1])) for end in ends]
        headings = [
            Heading(0.08, 0.2 + number * (ROW + GAP), encoder.of)
            for number, encoder in enumerate((found.images, found.captions))
        ]
        return diagram([*boxes, score], arrows, headings, height=height + 0.12)


def _tower(encoder: Encoder, top: float, boxes: list[Box], arrows: list[tuple[Point, Point]]) -> Box:
    """Add a tower; return its last box."""
    half = (ROW - 0.16) / 2

    def column(place: tuple[float, float], text: str, kind: str = "plain", *, low: bool = False) -> Box:
        return Box(place[0], top + (half + 0.16 if low else 0), place[1], half, text, kind)

    middle = top + ROW / 2 - half / 2
    given = Box(INPUT[0], middle, INPUT[1], half, f"{encoder.of[:-1]}\n{_given(encoder)}", "given")
    backbone = Box(BACKBONE[0], middle, BACKBONE[1], half, f"{encoder.backbone}\n{millions(encoder)}", "learned")
    sites = column(SITES, f"sites\n{shown(encoder.sites)}")
    whole = column(SITES, f"whole\n{shown(encoder.whole)}", low=True)
    mean = column(HEAD, "mean head", "learned")
    out = Box(GAUSSIAN[0], middle, GAUSSIAN[1], half, f"Gaussian\nD = {encoder.mean.out[-1]}")
    arrows += [(given.right, backbone.left), (backbone.right, sites.left), (backbone.right, whole.left)]
    heads = [mean]
    if encoder.sigma is None:
        out = Box(out.x, out.y, out.width, out.height, f"point\nD = {encoder.mean.out[-1]}")
    else:
        heads.append(column(HEAD, f"σ head\nlog σ: {encoder.sigma.out[-1]}", "learned", low=True))
    arrows += [(start.right, head.left) for start in (sites, whole) for head in heads]
    arrows += [(head.right, out.left) for head in heads]
    boxes += [given, backbone, sites, whole, *heads, out]
    return out


def _given(encoder: Encoder) -> str:
    return f"{encoder.input[0]} words" if len(encoder.input) == 1 else shown(encoder.input)


def shown(shape: Shape) -> str:
    """ "49 × 1,280"."""
    return " × ".join(f"{size:,}" for size in shape)


def millions(encoder: Encoder) -> str:
    """ "3.4 M weights"."""
    count = encoder.parameters
    return f"{count / 1e6:.1f} M weights" if count >= 1e5 else f"{count / 1e3:.1f} k weights"
