"""The picture of `bins`. Paper: Fig. 6."""

from pcme.analysis.bins import METRICS, WAYS, BinnedQueries, Curve, SigmaBins
from pcme.plots.charts import Line, add_lines
from pcme.plots.style import Axes, Figure, grid, legend_below, signed, styled

__all__ = ["draw_bins"]


@styled
def draw_bins(result: SigmaBins) -> Figure:
    """R@1 and R-Precision over bins of σ, a panel for each direction."""
    figure, panels = grid(1, len(result.ways), height=3.5)
    for axes, way in zip(panels, result.ways, strict=True):
        _panel(axes, way)
    panels[0].set_ylabel("queries' mean (%)")
    return figure


def _panel(axes: Axes, way: BinnedQueries) -> None:
    add_lines(axes, [_line(way, curve) for curve in way.curves])
    axes.set(title=WAYS[way.way], xlabel="mean log σ of the bin (median)")
    limits = _limits(way)
    axes.set_ylim(*limits)
    ticks = [tick for tick in axes.get_yticks() if limits[0] <= tick <= min(limits[1], 100)]
    axes.set_yticks(ticks)
    legend_below(axes)


def _line(way: BinnedQueries, curve: Curve) -> Line:
    rho = curve.over_bins.value
    name = (
        f"{METRICS[curve.metric]}, {'the same in all bins' if rho != rho else f'ρ {signed(rho)}'}"
    )
    percent = [[100 * value for value in part] for part in (curve.mean, curve.low, curve.high)]
    return Line(name, way.width, *percent)


def _limits(way: BinnedQueries) -> tuple[float, float]:
    """As narrow as the values allow, but never so narrow that a point looks like a cliff."""
    low = 100 * min(min(curve.low) for curve in way.curves)
    high = 100 * max(max(curve.high) for curve in way.curves)
    room = max(0.0, 10 - (high - low)) / 2 + 0.05 * (high - low)
    return max(-2.0, low - room), min(102.0, high + room)
