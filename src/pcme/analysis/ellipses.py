"""ellipses: images and captions of some classes as Gaussians in the plane, and a caption that says next to nothing.

The figure of a run of the recipe cub-toy, whose space is a plane: nothing is projected. Any other run with classes has
it too, in the plane in which its images differ most. The generic caption is looked at and was never trained on, so that
the paper's claim, "it covers most of the caption variations", can fail. Paper: §4.4, Fig. 5; §C.3.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

from pcme.analysis import geometry
from pcme.analysis.base import SIGMA, WORDS, Analysis, Need, Number, Result, Subject, registry, sample_rows
from pcme.analysis.geometry import Shape
from pcme.core.progress import Progress, silent
from pcme.embedding import Gaussian
from pcme.evaluation.subject import require_sigma
from pcme.plots import charts, style
from pcme.uncertainty.sigma import mean_log_sigma

CLASSES = Need("classes", lambda s: None if s.dataset.classes is not None else f"{s.dataset.where} has none")
PLANE = Need("two dimensions", lambda s: None if s.model.recipe.dim > 1 else "the space has one")

SHARE, GENERIC_SHARE = 0.5, 0.99
"""The shares of the mass that the ellipses of items, and the generic caption's, hold."""
COMPARED = 300
"""So many captions, at random, tell how much a caption covers that is not generic."""
GENERIC_COLOUR = style.PALETTE[4]
COLOURS = tuple(style.PALETTE[number] for number in (0, 1, 2, 3, 5, 6))
"""Those of classes: without the generic caption's red, and yellow, in which thin lines are lost."""
NAME = 28
"""At most so many letters of a class's name."""


@dataclass(frozen=True)
class Centre:
    """A class, and the mean of its images' means in the plane."""

    name: str
    x: float
    y: float


@dataclass(frozen=True)
class Ellipses(Result):
    """Some images and captions of each class in the plane, the generic caption, and how they lie to each other."""

    images: tuple[Shape, ...]
    captions: tuple[Shape, ...]
    """Of the classes in `centres`, whose name is their label."""
    centres: tuple[Centre, ...]
    generic: Shape
    dim: int
    """The dimensions of the space; 2: nothing is projected."""
    narrower: float
    """The share of the split's captions that are narrower than the generic one."""
    wider: float
    """How many times as wide as the captions the generic one is (geometric mean)."""
    covered: float
    """The share of the captions' means in the generic one's 99 % region, in all dimensions."""
    covered_by_others: float
    """The same for other captions, on average, each without itself."""
    own: float
    """The share of captions that are nearer to the centre of their own class's images than to any other's."""
    chance: float
    """The same at random."""

    def numbers(self) -> tuple[Number, ...]:
        """The generic caption against the others; whether the classes are told apart at all."""
        return (
            Number("captions narrower than the generic one", self.narrower, "1: it is the widest of all"),
            Number("σ of the generic caption over that of others", self.wider, "1: no wider"),
            Number("captions in the generic one's 99 % region", self.covered, "1: it covers all"),
            Number("captions in another caption's 99 % region", self.covered_by_others, "what any caption covers"),
            Number("captions nearest to their own class", self.own, f"{self.chance:.2f}: chance"),
        )


@registry.register("ellipses")
@dataclass(frozen=True)
class EllipsesAnalysis(Analysis[Ellipses], at_least={"classes": 1, "items": 1}):
    """Images and captions of some classes in the plane, and a caption that says nothing. Paper: Fig. 5, §C.3."""

    needs = (SIGMA, WORDS, CLASSES, PLANE)
    reading = (
        "Each ellipse holds half of the mass of an image, or caption, in the colour and dash of its class; the number "
        "stands at the centre of the class's images. The thick one is the 99 % ellipse of the generic caption: if it "
        "covers what captions say, it is the widest and lies over them. Of more than two dimensions it is a projection."
    )

    generic: str = "this bird has <unk> <unk> <unk> <unk> <unk> <unk>"
    classes: int = 9
    """The first so many of the split."""
    items: int = 8
    """At most so many images, and captions, of each class are drawn; numbers are of all of the split."""

    def compute(self, subject: Subject, progress: Progress = silent) -> Ellipses:
        """The shapes in the plane, and the numbers in all dimensions."""
        images, captions = subject.images, subject.captions
        generic = require_sigma(subject.model.encode_captions([self.generic]))
        known, own = subject.embedded.dataset.classes, (subject.clusters, subject.caption_clusters)
        assert known is not None, "it needs classes"
        present = np.unique(own[0])
        shown = {number: known.names[number] for number in present[: self.classes].tolist()}
        of_shown = images[np.flatnonzero(np.isin(own[0], [*shown])).tolist()]
        plane = np.eye(2) if images.dim == 2 else geometry.main_plane(of_shown)
        centres = torch.stack([images.mean[torch.from_numpy(own[0] == number)].mean(0) for number in present.tolist()])
        nearest = present[torch.cdist(captions.mean, centres).argmin(1).numpy()]
        width, widths = mean_log_sigma(generic)[0], mean_log_sigma(captions)
        return Ellipses(
            self._drawn("images", images, own[0], shown, plane),
            self._drawn("captions", captions, own[1], shown, plane),
            _centres(centres[: len(shown)].double().numpy() @ plane.T, list(shown.values())),
            geometry.project([("generic caption", generic)], plane)[0],
            images.dim,
            float((widths < width).mean()),
            math.exp(width - widths.mean()),
            float(geometry.inside(generic, captions.mean, GENERIC_SHARE).mean()),
            _covered_by_others(captions),
            float((nearest == own[1]).mean()),
            1 / len(present),
        )

    @style.styled
    def draw(self, result: Ellipses, images: object = None) -> style.Figure:
        """Images on the left, captions on the right, in one frame; the generic caption in both."""
        parts = (("images", result.images, result), ("captions", result.captions, result))
        rows = (len(result.centres) + 2) // 2
        axis = "coordinate" if result.dim == 2 else "axis of the plane"
        figure = charts.side_by_side(parts, _draw_side, height=3.8 + 0.17 * rows, y_label=f"second {axis}")
        for axes in figure.axes:
            axes.set_xlabel(f"first {axis}")
        handles = [_legend(place, centre.name) for place, centre in enumerate(result.centres)]
        handles.append(style.legend_line(color=GENERIC_COLOUR, linewidth=2.6, label="the generic caption, 99 %"))
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
        return figure

    def _drawn(
        self,
        of: str,
        items: Gaussian,
        own: Int64[np.ndarray, " n"],
        shown: dict[int, str],
        plane: Float64[np.ndarray, "2 d"],
    ) -> tuple[Shape, ...]:
        """Some items of each class in the plane, under the class's name."""
        chosen = []
        for number, name in shown.items():
            rows = np.flatnonzero(own == number)
            picked = rows[sample_rows(len(rows), self.items, "ellipses", of, str(number))].tolist()
            chosen += [(name, items[row]) for row in picked]
        return geometry.project(chosen, plane)


def _covered_by_others(captions: Gaussian) -> float:
    """The share of the other captions' means in a caption's region, mean over some captions."""
    rows = sample_rows(len(captions), COMPARED, "ellipses", "compared")
    inside = geometry.inside(captions[rows], captions.mean, GENERIC_SHARE).sum(1)  # each is in its own
    return float((inside - 1).mean() / max(len(captions) - 1, 1))


def _centres(points: Float64[np.ndarray, "k 2"], names: Sequence[str]) -> tuple[Centre, ...]:
    return tuple(Centre(name, x, y) for name, (x, y) in zip(names, points.tolist(), strict=True))


def _draw_side(axes: style.Axes, part: tuple[str, Sequence[Shape], Ellipses]) -> None:
    title, items, result = part
    number = {centre.name: place for place, centre in enumerate(result.centres)}
    for item in items:
        colour, dash = _looks(number[item.label])
        axes.add_patch(geometry.ellipse(item, SHARE, edgecolor=colour, linestyle=dash, linewidth=0.9))
    axes.add_patch(geometry.ellipse(result.generic, GENERIC_SHARE, edgecolor=GENERIC_COLOUR, linewidth=2.6))
    plate = {"facecolor": "white", "edgecolor": "none", "alpha": 0.6, "pad": 0.2}
    for centre in result.centres:
        label = str(number[centre.name] + 1)
        axes.text(centre.x, centre.y, label, ha="center", va="center", fontsize=8, fontweight="bold", bbox=plate)
    low, high = _frame(result)
    axes.set(title=f"{title}, 50 % ellipses", xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.set_aspect("equal", adjustable="box")


def _frame(result: Ellipses) -> tuple[Float64[np.ndarray, " 2"], Float64[np.ndarray, " 2"]]:
    """The corners of a square that holds all ellipses of both panels, with a margin."""
    drawn = [(shape, SHARE) for shape in (*result.images, *result.captions)]
    centres, halves = [], []
    for shape, share in [*drawn, (result.generic, GENERIC_SHARE)]:
        centres.append(shape.mean)
        halves.append([geometry.radius(share) * math.sqrt(max(shape.covariance[at], 0)) for at in (0, 2)])
    low, high = np.subtract(centres, halves).min(0), np.add(centres, halves).max(0)
    middle, half = (low + high) / 2, 0.54 * (high - low).max()
    return middle - half, middle + half


def _looks(place: int) -> tuple[str, Any]:
    """The colour and dash of the class in this place: no two alike."""
    return COLOURS[place % len(COLOURS)], style.DASHES[place // len(COLOURS) % len(style.DASHES)]


def _legend(place: int, name: str) -> style.Line2D:
    colour, dash = _looks(place)
    return style.legend_line(color=colour, linestyle=dash, label=f"{place + 1} {_as_read(name)}")


def _as_read(name: str) -> str:
    """A class's name without its number and lines.

    >>> _as_read("053.Western_Grebe")
    'Western Grebe'
    """
    return style.shortened(re.sub(r"^\d+\.", "", name).replace("_", " "), NAME)
