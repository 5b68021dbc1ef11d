"""The house style: one place for colours, markers, sizes and how a figure becomes a file.

Colours are those of Okabe & Ito, which colour-blind people can tell apart; whatever is told apart
by colour is also told apart by marker, dash or hatch, so that a grey print says the same. Figures
are `Figure` objects: pyplot and its global state are never touched. A figure always gives the same
bytes: no dates, no random ids. No other module imports matplotlib, and this one only to draw.
"""

import io
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pcme.core import files
from pcme.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
    from matplotlib.figure import SubFigure as SubFigure
    from matplotlib.lines import Line2D as Line2D
    from matplotlib.patches import Ellipse as Ellipse
    from matplotlib.patches import Rectangle as Rectangle
else:  # names of types; matplotlib is imported when something is drawn
    Axes = Figure = SubFigure = Line2D = Ellipse = Rectangle = Any

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[Any, ...] = (
    "-", (0, (5, 2)), (0, (1, 1.3)), (0, (6, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)), (0, (9, 3)),
    (0, (1, 3)), (0, (4, 4)),
)  # fmt: skip
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++", "oo", "--")
INK, FAINT, RULE = "#20242c", "#767c88", "#dfe2e7"

WIDTH = 6.4
"""Inches. With text of 8 points and more a figure can be read when it is 600 pixels wide."""
PIXELS_PER_INCH = 150

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same everywhere
    "font.size": 8.5,
    "text.color": INK,
    "text.parse_math": False,  # a caption may cost $5
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 8.5,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "hatch.linewidth": 0.6,
    "savefig.dpi": PIXELS_PER_INCH,
    "svg.fonttype": "path",
    "svg.hashsalt": "pcme",
}

P = ParamSpec("P")
T = TypeVar("T")


def require(module: str = "matplotlib") -> Any:  # noqa: ANN401 - a module
    """The module of matplotlib; an error with the remedy where it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError("matplotlib: not installed. Install what draws: pip install 'pcme[plots]'") from error


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """The drawing function, in the house style whatever the caller's is."""

    @wraps(draw)
    def inside(*args: P.args, **kwargs: P.kwargs) -> T:
        mpl = require()
        with mpl.rc_context():
            mpl.rcdefaults()
            mpl.rcParams.update(STYLE)
            return draw(*args, **kwargs)

    return inside


def blank(width: float, height: float, layout: str | None = "constrained") -> Figure:
    """An empty figure of this size in inches; without a layout its parts stay in place."""
    drawn: Figure = require("matplotlib.figure").Figure(figsize=(width, height), layout=layout)
    return drawn


def ellipse(*place: Any, **looks: Any) -> Ellipse:  # noqa: ANN401
    """An ellipse to be added to a panel: (x, y), width, height."""
    drawn: Ellipse = require("matplotlib.patches").Ellipse(*place, **looks)
    return drawn


def rectangle(*place: Any, **looks: Any) -> Rectangle:  # noqa: ANN401
    """A frame to be added to a panel: (x, y), width, height."""
    drawn: Rectangle = require("matplotlib.patches").Rectangle(*place, **looks)
    return drawn


def legend_line(**looks: Any) -> Line2D:  # noqa: ANN401
    """A line that stands in a legend only."""
    drawn: Line2D = require("matplotlib.lines").Line2D([], [], **looks)
    return drawn


def grid(
    rows: int = 1, columns: int = 1, *, height: float = 3.0, width: float = WIDTH, ratios: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, row by row; `ratios` are the relative widths of the columns."""
    figure = blank(width, height)
    panels = figure.subplots(rows, columns, squeeze=False, width_ratios=ratios)
    return figure, list(panels.ravel())


def divided(whole: Figure, *, heights: Sequence[float] = (1,), widths: Sequence[float] = (1,)) -> list[SubFigure]:
    """The parts of a figure, row by row, each with a layout of its own."""
    parts = whole.subfigures(len(heights), len(widths), squeeze=False, height_ratios=heights, width_ratios=widths)
    return list(parts.ravel())


def panels_of(part: SubFigure, rows: int = 1, columns: int = 1, **options: Any) -> list[Axes]:  # noqa: ANN401
    """The panels of a part, row by row; options are those of `subplots`."""
    return list(part.subplots(rows, columns, squeeze=False, **options).ravel())


def log_axis(axes: Axes, which: str) -> None:
    """A logarithmic axis, "x" or "y", with plain numbers beside its ticks."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    formatter = require("matplotlib.ticker").FuncFormatter
    axis.set_major_formatter(formatter(_plain_number))
    axis.set_minor_formatter(formatter(lambda value, position: ""))


@styled
def svg(figure: Figure) -> str:
    """The figure as SVG, from "<svg" on: for a file, or to put into a page."""
    _settle(figure)
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


@styled
def png(figure: Figure) -> bytes:
    """The figure as PNG."""
    _settle(figure)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def save(figure: Figure, stem: Path) -> tuple[Path, Path]:
    """Write `stem`.svg and `stem`.png, each whole or not at all."""
    vector, raster = stem.with_name(f"{stem.name}.svg"), stem.with_name(f"{stem.name}.png")
    try:
        files.write_text(vector, svg(figure))
        with files.replacing(raster) as draft:
            draft.write_bytes(png(figure))
    except OSError as error:
        raise ConfigError(
            f"{error.filename or stem}: cannot be written, got {error.strerror or error}. "
            "Check its folder and the space left on the disk."
        ) from error
    return vector, raster


def shortened(text: str, length: int) -> str:
    """The text, cut with an ellipsis if it is longer.

    >>> shortened("a small bird", 8)
    'a small…'
    """
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"


def signed(value: float) -> str:
    """Two digits with a sign of full width.

    >>> signed(-0.5)
    '−0.50'
    """
    return f"{value:+.2f}".replace("-", "−")


def legend_below(axes: Axes, columns: int = 1) -> None:
    """The panel's legend under its axis, where it covers nothing."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns)


def _settle(figure: Figure) -> None:
    """Lay the figure out, once: each further pass would move everything by a hair."""
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def _plain_number(value: float, position: int) -> str:
    """ "0.001", "100", "10k", "10M": as short as it can be, for an axis has little room."""
    for size, letter in ((1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e6 if letter == 'M' else 1e3):g}{letter}"
    return f"{value:g}"
