"""The picture of `calibration`: a reliability diagram, and a ROC curve."""

from pcme.analysis.calibration import Reliability, Roc
from pcme.plots.charts import Line, add_lines
from pcme.plots.style import FAINT, INK, PALETTE, Axes, Figure, divided, log_axis, panels_of, styled

__all__ = ["draw_calibration"]


@styled
def draw_calibration(result: Reliability) -> Figure:
    """p against the share that matches, with how many pairs there are; and the ROC curve."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    left, right = divided(figure, widths=(1, 1))
    upper, lower = panels_of(left, 2, sharex=True, height_ratios=(3, 1))
    _reliability(upper, result)
    _counts(lower, result)
    _roc(panels_of(right)[0], result.nothing)
    return figure


def _reliability(axes: Axes, result: Reliability) -> None:
    axes.plot([0, 1], [0, 1], color=INK, linestyle="--", linewidth=1, label="p is the share")
    add_lines(axes, [Line("pairs", result.confidence, result.true)])
    axes.set(
        title=f"calibration error {result.error:.3f}", ylabel="share that matches",
        xlim=(-0.02, 1.02), ylim=(-0.02, 1.02),
    )  # fmt: skip
    axes.legend(loc="upper left")


def _counts(axes: Axes, result: Reliability) -> None:
    log_axis(axes, "y")
    axes.bar(result.confidence, result.count, width=0.045, color=FAINT)
    axes.set(xlabel="match probability p", ylabel="pairs")


def _roc(axes: Axes, nothing: Roc) -> None:
    axes.plot([0, 1], [0, 1], color=INK, linestyle="--", linewidth=1, label="chance")
    axes.plot(nothing.false_alarms, nothing.found, color=PALETTE[2], label="by the best p")
    axes.fill_between(
        nothing.false_alarms, nothing.found, color=PALETTE[2], alpha=0.12, linewidth=0
    )
    axes.set(
        title=f"no match told apart: {nothing.auroc:.3f}",
        xlabel=f"share let through of {nothing.unmatched:,}\n{nothing.nothing}",
        ylabel=f"share let through of {nothing.matched:,} that match",
        xlim=(-0.02, 1.02), ylim=(-0.02, 1.02),
    )  # fmt: skip
    axes.legend(loc="lower right")
