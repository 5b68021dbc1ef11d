"""The picture of `erasing`. Paper: Fig. 7."""

from pcme.analysis.erasing import Spoiling, Spoilings
from pcme.plots.charts import Line, add_lines
from pcme.plots.style import Axes, Figure, grid, legend_below, styled

__all__ = ["draw_erasing"]


@styled
def draw_erasing(result: Spoilings) -> Figure:
    """Mean log σ against what is spoiled: a panel for captions, one for images."""
    kinds = {of: [c for c in result.curves if c.of == of] for of in ("captions", "images")}
    shown = {of: curves for of, curves in kinds.items() if curves}
    figure, panels = grid(1, len(shown), height=3.7)
    for axes, (of, curves) in zip(panels, shown.items(), strict=True):
        _panel(axes, of, curves, first=0 if of == "captions" else len(kinds["captions"]))
    panels[0].set_ylabel("mean log σ")
    return figure


def _panel(axes: Axes, of: str, curves: list[Spoiling], first: int) -> None:
    add_lines(axes, [_line(curve) for curve in curves], first=first)
    share = "words spoiled (% of the caption)" if of == "captions" else "pixels erased (%)"
    axes.set(title=f"{curves[0].items:,} {of}", xlabel=share)
    legend_below(axes)


def _line(curve: Spoiling) -> Line:
    name = f"{curve.name}, {100 * curve.rises.value:.0f} % wider at half"
    return Line(name, [100 * r for r in curve.ratio], curve.mean, curve.low, curve.high)
