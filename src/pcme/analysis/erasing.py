"""erasing: does σ grow when pixels or words are taken away? Paper: §4.4, Fig. 7; §F.1."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float64, Int64

from pcme.analysis.base import CONTENT, PIXELS, SIGMA, WORDS, Analysis, Number, Result, Subject, registry
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
class PerturbationCurve:
    """Mean log σ of some items under one kind of growing perturbation."""

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
        """The kind of perturbation."""
        return NAMES[self.way]


@dataclass(frozen=True)
class PerturbationCurves(Result):
    """σ under every kind of perturbation that the data allows."""

    curves: tuple[PerturbationCurve, ...]

    def numbers(self) -> tuple[Number, ...]:
        """Per kind, the correlation of σ with the ratio, and the share of items that rise."""
        return tuple(
            Number.of(f"{what}, {curve.name}", value, meaning)
            for curve in self.curves
            for what, value, meaning in (
                ("ρ of σ and ratio", curve.correlation, "1: the more is gone, the wider"),
                ("share wider at half", curve.rises, "1: all of them"),
            )
        )


@registry.register("erasing")
@dataclass(frozen=True)
class ErasingAnalysis(Analysis[PerturbationCurves], at_least={"items": 2}):
    """Mean log σ against erased pixels, replaced, deleted and appended words. Paper: Fig. 7."""

    needs = (SIGMA, CONTENT)
    reading = (
        "Each line is the mean over items that are spoiled more and more; the band holds the middle half of them. σ "
        "that means ambiguity rises, except that <unk> added to a whole caption takes nothing away from it."
    )

    items: int = 300

    def compute(self, subject: Subject, progress: Progress = silent) -> PerturbationCurves:
        """Three kinds for captions and one for images, where there are words and pixels."""
        model, dataset = subject.model, subject.embedded.dataset
        captions, images = sample_items(dataset, captions=self.items, images=self.items)
        jobs: list[tuple[str, Callable[..., Float64[np.ndarray, "n r"]], Int64[np.ndarray, " n"]]] = []
        if WORDS.lacking(subject) is None:
            for way in ("replaced", "deleted", "appended"):
                perturb = partial(perturbed_captions, model, dataset, captions, way)
                jobs.append((way, perturb, subject.caption_clusters[captions]))
        if PIXELS.lacking(subject) is None:
            jobs.append(("erased", partial(perturbed_images, model, dataset, images), subject.clusters[images]))
        return PerturbationCurves(
            tuple(
                curve(way, perturb(progress=part_of(progress, number, len(jobs))), clusters)
                for number, (way, perturb, clusters) in enumerate(jobs)
            )
        )

    @style.styled
    def draw(self, result: PerturbationCurves, images: object = None) -> style.Figure:
        """Mean log σ against the ratio: one panel for captions, one for images."""
        kinds = [[(n, c) for n, c in enumerate(result.curves) if c.of == of] for of in ("captions", "images")]
        return charts.side_by_side(list(filter(None, kinds)), _panel, height=3.7, y_label="mean log σ")


def curve(way: str, widths: Float64[np.ndarray, "n r"], clusters: Int64[np.ndarray, " n"]) -> PerturbationCurve:
    """The curve of n items from their mean log σ at RATIOS."""
    quartiles = np.quantile(widths, (0.25, 0.75), axis=0)
    mean, low, high = (tuple(part.tolist()) for part in (widths.mean(0), *quartiles))
    pooled = spearman(widths.ravel(), np.broadcast_to(RATIOS, widths.shape).ravel())
    correlation = estimate(lambda weights: pooled(np.repeat(weights, widths.shape[1])), clusters)
    rises = estimate(weighted_mean(widths[:, HALF] > widths[:, 0]), clusters)
    of = "images" if way == "erased" else "captions"
    return PerturbationCurve(way, of, len(widths), RATIOS, mean, low, high, correlation, rises)


def _panel(axes: style.Axes, numbered: Sequence[tuple[int, PerturbationCurve]]) -> None:
    """The curves of one kind of item, in the looks of their numbers."""
    first, curve = numbered[0]
    lines = []
    for _, each in numbered:
        name = f"{each.name}, {100 * each.rises.value:.0f} % wider at half"
        lines.append(charts.Line(name, [100 * r for r in each.ratio], each.mean, each.low, each.high))
    charts.add_lines(axes, lines, first=first)
    share = "words spoiled (% of the caption)" if curve.of == "captions" else "pixels erased (%)"
    axes.set(title=f"{curve.items:,} {curve.of}", xlabel=share)
    style.legend_below(axes)
