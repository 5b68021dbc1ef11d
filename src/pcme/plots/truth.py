"""The picture of `truth`: what the model says of a caption's matches, against the number."""

import numpy as np

from pcme.analysis.truth import Against, MatchTruth
from pcme.plots.charts import Line, add_lines
from pcme.plots.style import INK, Axes, Figure, grid, log_axis, signed, styled

__all__ = ["draw_truth"]

LABELS = {"width": "mean log σ of the caption", "expected": "Σ p over all images"}
TITLES = {"width": "σ", "expected": "expected matches"}
LEAST = 0.1
"""Expected numbers below this are drawn here: on a logarithmic axis there is no room for 0."""

DECADE = 10
"""Numbers that differ less are not worth a logarithmic axis, which would have no tick."""


@styled
def draw_truth(result: MatchTruth) -> Figure:
    """σ, where there is one, and Σ p against the number of images a caption fits."""
    known = [said for said in (result.width, result.expected) if said is not None]
    figure, panels = grid(1, len(known), height=3.3)
    for axes, said in zip(panels, known, strict=True):
        _panel(axes, said)
    return figure


def _panel(axes: Axes, said: Against) -> None:
    logs = said.says == "expected"
    x = np.array([point.matches for point in said.points], np.float64)
    y = np.array([max(point.says, LEAST) if logs else point.says for point in said.points])
    wide = x.max() >= DECADE * x.min()
    axes.hexbin(
        x, y, gridsize=28, xscale="log" if wide else "linear", bins="log",
        yscale="log" if logs else "linear", cmap="Blues", mincnt=1, linewidths=0.1, vmin=0.5,
    )  # fmt: skip
    if wide:
        log_axis(axes, "x")  # after hexbin, which sets axes of its own
    if logs:
        log_axis(axes, "y")
    quartiles = [np.maximum(p, LEAST) if logs else p for p in (said.middle, said.low, said.high)]
    add_lines(axes, [Line("median, middle half", said.matches, *map(list, quartiles))], first=4)
    if logs:
        exact = np.geomspace(x.min(), x.max())
        axes.plot(exact, exact, color=INK, linestyle="--", linewidth=1, label="exact")
    rho = said.correlation
    axes.set(
        title=f"{TITLES[said.says]}: ρ {signed(rho.value)}",
        xlabel="images the caption fits",
        ylabel=LABELS[said.says],
    )
    axes.legend(loc="lower left" if rho.value < 0 else "upper left")
