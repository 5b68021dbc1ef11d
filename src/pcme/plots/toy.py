"""The picture of `toy`. Paper: Fig. 5."""

from collections.abc import Sequence

from pcme.analysis.toy import CLASSES, Ellipse, Plane, radius
from pcme.plots.style import DASHES, PALETTE, Axes, Figure, Line2D, grid, styled
from pcme.plots.style import Ellipse as Oval

__all__ = ["draw_toy"]

GENERIC = PALETTE[4]
GROUPS = (PALETTE[0], PALETTE[1], PALETTE[2])


@styled
def draw_toy(result: Plane) -> Figure:
    """Images on the left, captions on the right; the generic caption's 99 % ellipse in both."""
    figure, panels = grid(1, 2, height=4.1)
    for axes, title, items in zip(
        panels, ("images", "captions"), (result.images, result.captions), strict=True
    ):
        _panel(axes, title, items, result)
    panels[0].set_ylabel("second coordinate")
    figure.legend(handles=_handles(), loc="outside lower center", ncols=2)
    return figure


def _panel(axes: Axes, title: str, items: Sequence[Ellipse], result: Plane) -> None:
    for item in items:
        colour, dash = _looks(item.klass)
        axes.add_patch(_oval(item, 0.5, edgecolor=colour, linestyle=dash, linewidth=1))
    axes.add_patch(_oval(result.generic, 0.99, edgecolor=GENERIC, linestyle="-", linewidth=2.6))
    for number, (x, y) in enumerate(result.centres, start=1):
        axes.text(x, y, str(number), ha="center", va="center", fontsize=9, fontweight="bold")
    axes.set(title=f"{title}, 50 % ellipses", xlabel="first coordinate")
    axes.set_aspect("equal", adjustable="datalim")
    axes.autoscale_view()


def _oval(item: Ellipse, share: float, **looks: object) -> Oval:
    size = 2 * radius(share)
    return Oval(
        (item.x, item.y),
        size * item.sigma_x,
        size * item.sigma_y,
        fill=False,
        **looks,  # type: ignore[arg-type]
    )


def _looks(klass: int) -> tuple[str, object]:
    """A colour for each group of three, a dash for each of its members."""
    return GROUPS[klass // 3], DASHES[klass % 3]


def _handles() -> list[Line2D]:
    classes = [
        Line2D([], [], color=colour, linestyle=dash, label=f"{number} {name}")  # type: ignore[arg-type]
        for number, name in enumerate(CLASSES, start=1)
        for colour, dash in [_looks(number - 1)]
    ]
    generic = Line2D([], [], color=GENERIC, linewidth=2.6, label="generic caption, 99 %")
    return [*classes, generic]
