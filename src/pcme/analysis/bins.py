"""bins: is retrieval worse where σ is larger? Paper: §4.4, Fig. 6."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Float64, Int, Int64
from scipy import stats

from pcme.analysis.base import SIGMA, Analysis, Number, Result, Side, Subject, registry, sides
from pcme.core.checks import require_known
from pcme.core.progress import Progress, silent
from pcme.errors import DataError
from pcme.evaluation.bootstrap import Estimate, estimate, percentiles, replicates, spearman
from pcme.evaluation.ground_truth import Fold
from pcme.plots import charts, style
from pcme.retrieval import metrics
from pcme.scores.base import Score
from pcme.uncertainty.sigma import bin_by_sigma

METRICS = {"recall@1": "R@1", "r_precision": "R-Precision"}
"""{metric: its name in figures}."""
PROTOCOLS = ("whole", "1k")
DIRECTIONS = {"i2t": "images → captions", "t2i": "captions → images"}


@dataclass(frozen=True)
class MetricCurve:
    """The mean of a metric per bin of σ with its 95 % interval, and its correlation with σ."""

    metric: str
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    over_bins: Estimate
    """Spearman's ρ of the bins' means with their order."""
    over_items: Estimate
    """Spearman's ρ of each query's value with its mean log σ."""


@dataclass(frozen=True)
class BinnedQueries:
    """The queries of one direction in bins of equal count, the narrowest first."""

    way: str
    queries: int
    width: tuple[float, ...]
    """The median of mean log σ, per bin."""
    curves: tuple[MetricCurve, ...]


@dataclass(frozen=True)
class SigmaBins(Result):
    """Retrieval over bins of σ, both directions."""

    ways: tuple[BinnedQueries, ...]

    def numbers(self) -> tuple[Number, ...]:
        """Spearman's ρ over bins and over queries, both directions."""
        return tuple(
            Number.of(
                f"ρ of σ and {METRICS[curve.metric]}, {DIRECTIONS[queries.way]}, over {over}",
                rho,
                "-1: the wider, the worse; 0: σ says nothing of it",
            )
            for queries in self.ways
            for curve in queries.curves
            for over, rho in (("bins", curve.over_bins), ("queries", curve.over_items))
        )


@registry.register("bins")
@dataclass(frozen=True)
class BinsAnalysis(Analysis[SigmaBins], at_least={"bins": 2}):
    """R@1 and R-Precision in bins of σ, both directions. Paper: Fig. 6."""

    needs = (SIGMA,)
    reading = (
        "Queries in bins of equal count, from the narrowest σ to the widest; a point is the mean of its bin. Curves "
        "that fall say that σ warns of what will go wrong."
    )

    bins: int = 10
    protocol: str = "whole"
    """The gallery of a query: the "whole" split, or its fold of COCO "1k", in which the bins are too."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("protocol", self.protocol, PROTOCOLS)

    def compute(self, subject: Subject, progress: Progress = silent) -> SigmaBins:
        """Both directions by the model's own score."""
        score, both, ways = subject.model.score(), sides(subject), []
        truths = (subject.protocol.i2t, subject.protocol.t2i)
        if self.protocol != "whole" and not truths[0].folds:
            why = "; ".join(subject.protocol.notes) or f"{subject.protocol.dataset} has no folds"
            raise DataError(f"protocol: must have folds, got {why}. Use COCO's test split, or --set protocol=whole.")
        for side, truth, before in zip(both, truths, (0, len(both[0].queries)), strict=True):
            if self.protocol == "whole":
                values, place = query_metrics(score, side, before, progress), side.log_sigma
            else:
                values, place = in_folds(score, side, truth.folds), rank_in_folds(side.log_sigma, truth.folds)
            ways.append(in_bins(side.direction, side.log_sigma, values, side.clusters, self.bins, place))
        return SigmaBins(tuple(ways))

    @style.styled
    def draw(self, result: SigmaBins, images: object = None) -> style.Figure:
        """R@1 and R-Precision over bins of σ, one panel per direction."""
        return charts.side_by_side(result.ways, _panel, height=3.5, y_label="queries' mean (%)")


def query_metrics(
    score: Score, side: Side, before: int = 0, progress: Progress = silent
) -> dict[str, Float64[np.ndarray, " q"]]:
    """{metric: per-query values}, NaN for queries without a relevant item; `before` queries are done already."""
    parts: dict[str, list[Float64[np.ndarray, " b"]]] = {name: [] for name in METRICS}
    for rows, block in score.blocks(side.queries, side.gallery):
        parts["recall@1"].append(metrics.recall(block, side.matches[rows], 1))
        parts["r_precision"].append(metrics.r_precision(block, side.matches[rows]))
        progress("queries", before + rows.stop, len(side.queries) + len(side.gallery))
    return {name: np.concatenate(values) for name, values in parts.items()}


def in_folds(score: Score, side: Side, folds: Sequence[Fold]) -> dict[str, Float64[np.ndarray, " q"]]:
    """{metric: per-query values} of queries that are asked among the items of their fold. Paper: §4.1, COCO 1K."""
    values = {name: np.full(len(side.queries), np.nan) for name in METRICS}
    for fold in folds:
        queries, gallery = side.queries[fold.queries.tolist()], side.gallery[fold.gallery.tolist()]
        part = replace(side, queries=queries, gallery=gallery, matches=fold.matches)
        for name, found in query_metrics(score, part).items():
            values[name][fold.queries] = found
    return values


def rank_in_folds(widths: Float64[np.ndarray, " q"], folds: Sequence[Fold]) -> Float64[np.ndarray, " q"]:
    """The share of a query's fold that is narrower: bins of it are the bins of every fold, taken together.

    Folds are equally large, so that the mean of such a bin is the mean of the folds' means.
    """
    ranks = np.full(len(widths), np.nan)
    for fold in folds:
        ranks[fold.queries] = np.argsort(np.argsort(widths[fold.queries], kind="stable")) / len(fold.queries)
    return ranks


def in_bins(
    way: str,
    widths: Float64[np.ndarray, " q"],
    values: dict[str, Float64[np.ndarray, " q"]],
    clusters: Int64[np.ndarray, " q"],
    bins: int,
    place: Float64[np.ndarray, " q"] | None = None,
) -> BinnedQueries:
    """The curves of one direction; queries without a relevant item are left out.

    The bins are of `place`, by default of the width itself.
    """
    place = widths if place is None else place
    answerable = ~np.isnan(values["recall@1"])
    if (count := np.count_nonzero(answerable)) < bins:
        raise DataError(
            f"bins: {bins} need as many queries with a relevant item, got {count}. Use fewer bins: --set bins=2"
        )
    widths, place, clusters = widths[answerable], place[answerable], clusters[answerable]
    curves = [_curve(name, place, v[answerable], clusters, bins) for name, v in values.items()]
    middles = bin_by_sigma(widths, widths, bins=bins, place=place).width
    return BinnedQueries(way, len(widths), tuple(middles.tolist()), tuple(curves))


def _curve(
    metric: str,
    widths: Float64[np.ndarray, " q"],
    values: Float64[np.ndarray, " q"],
    clusters: Int[np.ndarray, " q"],
    bins: int,
) -> MetricCurve:
    means = _bin_means(widths, values, bins)
    drawn = replicates(means, clusters)
    low, high = zip(*map(percentiles, drawn.T), strict=True)
    whole = means(np.ones(len(values)))
    return MetricCurve(
        metric,
        tuple(whole.tolist()),
        low,
        high,
        Estimate(float(_orders(whole[None])[0]), *percentiles(_orders(drawn))),
        estimate(spearman(widths, values), clusters),
    )


def _bin_means(
    widths: Float[np.ndarray, " q"], values: Float[np.ndarray, " q"], bins: int
) -> Callable[[Float64[np.ndarray, " q"]], Float64[np.ndarray, " bins"]]:
    """The bins' means of a draw: an item drawn twice counts twice in the order of σ."""
    order = np.argsort(widths, kind="stable")

    def means(weights: Float64[np.ndarray, " q"]) -> Float64[np.ndarray, " bins"]:
        listed = np.repeat(values[order], weights[order].astype(np.int64))
        return np.array([part.mean() if len(part) else np.nan for part in np.array_split(listed, bins)])

    return means


def _orders(means: Float64[np.ndarray, "r bins"]) -> Float64[np.ndarray, " r"]:
    """Spearman's ρ of each row with the order of the bins; NaN where a row is constant."""
    ranks = stats.rankdata(means, axis=1)
    ranks -= ranks.mean(1, keepdims=True)
    bins = np.arange(means.shape[1]) - (means.shape[1] - 1) / 2
    lengths = np.sqrt(np.square(ranks).sum(1) * np.square(bins).sum())
    with np.errstate(invalid="ignore"):
        return np.asarray(ranks @ bins / np.where(lengths > 0, lengths, np.nan))


def _panel(axes: style.Axes, queries: BinnedQueries) -> None:
    """The curves of one direction; the axis is as narrow as they allow, but at least ten points high."""
    lines, ends = [], []
    for curve in queries.curves:
        rho = curve.over_bins.value
        trend = "the same in all bins" if math.isnan(rho) else f"ρ {style.signed(rho)}"
        mean, low, high = ([100 * value for value in part] for part in (curve.mean, curve.low, curve.high))
        lines.append(charts.Line(f"{METRICS[curve.metric]}, {trend}", queries.width, mean, low, high))
        ends += [*low, *high]
    charts.add_lines(axes, lines)
    axes.set(title=DIRECTIONS[queries.way], xlabel="mean log σ of the bin (median)")
    span = max(ends) - min(ends)
    room = max(0.0, 10 - span) / 2 + 0.05 * span
    bottom, top = max(-2.0, min(ends) - room), min(102.0, max(ends) + room)
    axes.set_ylim(bottom, top)
    axes.set_yticks([tick for tick in axes.get_yticks() if bottom <= tick <= min(top, 100)])
    style.legend_below(axes)
