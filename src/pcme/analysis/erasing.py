"""erasing: does σ grow when pixels or words are taken away? Paper: §4.4, Fig. 7; §F.1."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float64, Int64

from pcme.analysis.base import (
    PIXELS,
    PIXELS_OR_WORDS,
    SIGMA,
    WORDS,
    Analysis,
    Number,
    Result,
    Subject,
    registry,
)
from pcme.core.progress import Progress, part_of, silent
from pcme.evaluation.bootstrap import Estimate, estimate, spearman, weighted_mean
from pcme.plots import charts, style
from pcme.uncertainty.perturbation import RATIOS, perturbed_captions, perturbed_images, sample_items

HALF = RATIOS.index(0.5)

NAMES = {
    "erased": "pixels erased",
    "replaced": "words replaced by <unk>",
    "deleted": "words deleted",
    "appended": "<unk> appended",
}


@dataclass(frozen=True)
class Spoiling:
    """Mean log σ of some items, spoiled in one way more and more."""

    way: str
    of: str
    items: int
    ratio: tuple[float, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    """The middle half of the items."""
    correlation: Estimate
    """Spearman's ρ of mean log σ with the ratio, over all items and ratios."""
    rises: Estimate
    """The share of items that are wider at a ratio of one half than at none."""

    @property
    def name(self) -> str:
        """What is done to the items."""
        return NAMES[self.way]


@dataclass(frozen=True)
class Spoilings(Result):
    """σ under every kind of spoiling that the data allows."""

    curves: tuple[Spoiling, ...]

    def numbers(self) -> tuple[Number, ...]:
        """How σ goes with the ratio, and how many items rise, of each kind."""
        return tuple(
            Number(f"{what}, {curve.name}", found.value, meaning, found.low, found.high)
            for curve in self.curves
            for what, found, meaning in (
                ("ρ of σ and ratio", curve.correlation, "1: the more is gone, the wider"),
                ("share wider at half", curve.rises, "1: all of them"),
            )
        )


@registry.register("erasing")
@dataclass(frozen=True)
class Erasing(Analysis[Spoilings]):
    """Mean log σ against erased pixels, replaced, deleted and appended words. Paper: Fig. 7."""

    needs = (SIGMA, PIXELS_OR_WORDS)
    reading = (
        "Each line is the mean over items that are spoiled more and more; the band holds the "
        "middle half of them. σ that means ambiguity rises, except that <unk> added to a whole "
        "caption takes nothing away from it."
    )

    items: int = 300

    def __post_init__(self) -> None:
        self._at_least(2, "items")

    def compute(self, subject: Subject, progress: Progress = silent) -> Spoilings:
        """Captions in three ways and images in one, where there are words and pixels."""
        model, dataset = subject.model, subject.embedded.dataset
        captions, images = sample_items(dataset, captions=self.items, images=self.items)
        jobs: dict[str, Callable[..., Float64[np.ndarray, "n r"]]] = {}
        if WORDS.lacking(subject) is None:
            for way in ("replaced", "deleted", "appended"):
                jobs[way] = partial(perturbed_captions, model, dataset, captions, way)
        if PIXELS.lacking(subject) is None:
            jobs["erased"] = partial(perturbed_images, model, dataset, images)
        curves: list[Spoiling] = []
        for way, job in jobs.items():
            widths = job(progress=part_of(progress, len(curves), len(jobs)))
            items = images if way == "erased" else captions
            clusters = subject.clusters if way == "erased" else subject.caption_clusters
            curves.append(curve(way, widths, clusters[items]))
        return Spoilings(tuple(curves))

    @style.styled
    def draw(self, result: Spoilings, images: object = None) -> style.Figure:
        """Mean log σ against what is spoiled: a panel for captions, one for images."""
        kinds = {of: [c for c in result.curves if c.of == of] for of in ("captions", "images")}
        shown = {of: curves for of, curves in kinds.items() if curves}
        figure, panels = style.grid(1, len(shown), height=3.7)
        for axes, (of, curves) in zip(panels, shown.items(), strict=True):
            _panel(axes, of, curves, first=0 if of == "captions" else len(kinds["captions"]))
        panels[0].set_ylabel("mean log σ")
        return figure


def curve(
    way: str, widths: Float64[np.ndarray, "n r"], clusters: Int64[np.ndarray, " n"]
) -> Spoiling:
    """What the widths of n items at RATIOS come to."""
    low, high = np.quantile(widths, (0.25, 0.75), axis=0)
    ratios = np.broadcast_to(RATIOS, widths.shape)
    pooled = spearman(widths.ravel(), ratios.ravel())
    rises = (widths[:, HALF] > widths[:, 0]).astype(np.float64)
    return Spoiling(
        way,
        "images" if way == "erased" else "captions",
        len(widths),
        RATIOS,
        tuple(widths.mean(0).tolist()),
        tuple(low.tolist()),
        tuple(high.tolist()),
        estimate(lambda weights: pooled(np.repeat(weights, widths.shape[1])), clusters),
        estimate(weighted_mean(rises), clusters),
    )


def _panel(axes: style.Axes, of: str, curves: list[Spoiling], first: int) -> None:
    charts.add_lines(axes, [_line(curve) for curve in curves], first=first)
    share = "words spoiled (% of the caption)" if of == "captions" else "pixels erased (%)"
    axes.set(title=f"{curves[0].items:,} {of}", xlabel=share)
    style.legend_below(axes)


def _line(curve: Spoiling) -> charts.Line:
    name = f"{curve.name}, {100 * curve.rises.value:.0f} % wider at half"
    return charts.Line(name, [100 * r for r in curve.ratio], curve.mean, curve.low, curve.high)
