"""The picture of `algebra`. Paper: Fig. 8."""

import math
from collections.abc import Sequence

import numpy as np

from pcme.analysis.algebra import Relation, Relations
from pcme.analysis.geometry import Shape
from pcme.analysis.toy import radius
from pcme.plots.charts import Bars, add_bars
from pcme.plots.style import (
    DASHES,
    MARKERS,
    PALETTE,
    Axes,
    Ellipse,
    Figure,
    Line2D,
    divided,
    panels_of,
    styled,
)

__all__ = ["draw_algebra"]


@styled
def draw_algebra(result: Relations) -> Figure:
    """An example of each relation in the plane, and the covers of all pairs below."""
    rows = math.ceil(len(result.relations) / 2)
    figure = Figure(figsize=(6.4, 3.1 * rows + 3.0), layout="constrained")
    above, below = divided(figure, heights=(3.1 * rows, 3.0))
    panels = panels_of(above, rows, 2)
    for axes, relation in zip(panels, result.relations, strict=False):
        _example(axes, relation)
    for axes in panels[len(result.relations) :]:
        axes.set_axis_off()
    _covers(panels_of(below)[0], result.relations)
    return figure


def _example(axes: Axes, relation: Relation) -> None:
    for place, shape in enumerate(relation.example.shapes):
        axes.add_patch(_ellipse(shape, place))
        axes.plot(*shape.mean, marker=MARKERS[place], color=PALETTE[place], markersize=2.5)
    axes.set_title(_wrapped(relation.name), fontsize=8.5)
    axes.set(xlabel="first axis of the plane", ylabel="second axis")
    axes.set_aspect("equal", adjustable="datalim")
    axes.autoscale_view()
    handles = [
        Line2D(
            [], [], color=PALETTE[place], linestyle=DASHES[place], marker=MARKERS[place],
            markersize=4, label=shape.label,
        )
        for place, shape in enumerate(relation.example.shapes)
    ]  # fmt: skip
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)


def _ellipse(shape: Shape, place: int) -> Ellipse:
    """The 50 % ellipse."""
    xx, xy, yy = shape.covariance
    values, vectors = np.linalg.eigh(np.array([[xx, xy], [xy, yy]]))
    short, long = 2 * radius(0.5) * np.sqrt(np.maximum(values, 0))
    angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
    return Ellipse(
        shape.mean, float(long), float(short), angle=angle, facecolor="none",
        edgecolor=PALETTE[place], linestyle=DASHES[place], linewidth=1.8,
    )  # fmt: skip


def _covers(axes: Axes, relations: Sequence[Relation]) -> None:
    names = {"forward": "inner in outer", "backward": "outer in inner", "chance": "another pair's"}
    series = []
    for field, name in names.items():
        found = [getattr(relation, field) for relation in relations]
        series.append(
            Bars(name, *([getattr(x, part) for x in found] for part in ("value", "low", "high")))
        )
    groups = [
        f"{_wrapped(r.name)}\n(holds for {100 * r.holds.value:.0f} % of {r.pairs})"
        for r in relations
    ]
    add_bars(axes, groups, series, horizontal=True)
    axes.set(xlabel="share of the mass that is covered, mean over dimensions", xlim=(0, 1))
    axes.axvline(0.95, color="black", linestyle=":", linewidth=1.2, label="an item in itself")
    axes.figure.legend(loc="outside lower center", ncols=4)


def _wrapped(name: str) -> str:
    """In two lines, at the space nearest to the middle."""
    spaces = [place for place, letter in enumerate(name) if letter == " "]
    middle = min(spaces, key=lambda place: abs(place - len(name) / 2), default=None)
    return name if middle is None else f"{name[:middle]}\n{name[middle + 1 :]}"
