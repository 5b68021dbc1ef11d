"""The house style: one place for colours, markers, sizes and how a figure becomes a file.

Colours are those of Okabe & Ito, which colour-blind people can tell apart; what differs in colour differs in marker,
dash or hatch too. pyplot and its global state are never touched. A figure always gives the same bytes: no
dates, no random ids. No other module imports matplotlib, and this one only to draw.
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
    from matplotlib.patches import Patch as Patch
else:  # names of types; matplotlib is imported when something is drawn
    Axes = Figure = SubFigure = Line2D = Patch = Any

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GAPS = ((5, 2), (1, 1.3), (6, 1.5, 1, 1.5), (3, 1, 1, 1, 1, 1), (9, 3), (1, 3), (4, 4))
DASHES: tuple[Any, ...] = ("-", *((0, lengths) for lengths in GAPS))
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


def blank(height: float, layout: str | None = "constrained") -> Figure:
    """An empty figure of this height in inches; without a layout its parts stay in place."""
    drawn: Figure = require("matplotlib.figure").Figure(figsize=(WIDTH, height), layout=layout)
    return drawn


def patch(kind: str, corner: tuple[float, float], width: float, height: float, **looks: Any) -> Patch:  # noqa: ANN401
    """An "Ellipse" (by its centre) or a "Rectangle", to be added to a panel."""
    drawn: Patch = getattr(require("matplotlib.patches"), kind)(corner, width, height, **looks)
    return drawn


def legend_line(**looks: Any) -> Line2D:  # noqa: ANN401
    """A line that stands in a legend only."""
    drawn: Line2D = require("matplotlib.lines").Line2D([], [], **looks)
    return drawn


def grid(columns: int = 1, *, height: float) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, side by side."""
    figure = blank(height)
    return figure, list(figure.subplots(1, columns, squeeze=False).ravel())


def divided(
    height: float, *, heights: Sequence[float] = (1,), widths: Sequence[float] = (1,)
) -> tuple[Figure, list[SubFigure]]:
    """A figure and its parts, row by row, each with a layout of its own."""
    figure = blank(height)
    parts = figure.subfigures(len(heights), len(widths), squeeze=False, height_ratios=heights, width_ratios=widths)
    return figure, list(parts.ravel())


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
    text = _saved(figure, "svg", Date=None).decode()
    return text[text.index("<svg") :]


@styled
def png(figure: Figure) -> bytes:
    """The figure as PNG."""
    return _saved(figure, "png", Software=None)


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


def _saved(figure: Figure, kind: str, **metadata: Any) -> bytes:  # noqa: ANN401
    """The bytes of a file. The figure is laid out once: each further pass would move everything by a hair."""
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    stream = io.BytesIO()
    figure.savefig(stream, format=kind, metadata=metadata)
    return stream.getvalue()


def _plain_number(value: float, position: int) -> str:
    """ "0.001", "100", "10k", "10M": as short as it can be, for an axis has little room."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:g}"
