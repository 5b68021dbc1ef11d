"""Quality of a confidence, assessed on captions and images that it was not fitted on."""

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Float64
from scipy.special import expit

from pcme.embedding import Embedding
from pcme.retrieval.matches import Matches
from pcme.scores.base import Score
from pcme.uncertainty.confidence import Confidence
from pcme.uncertainty.curve import log_odds
from pcme.uncertainty.evaluation_set import EvaluationSet, log_probabilities
from pcme.uncertainty.fitting import BestHits
from pcme.uncertainty.risk_coverage import RiskCoverage, area, risk_coverage
from pcme.uncertainty.statistics import Calibration, auroc, rank_correlation


@dataclass(frozen=True)
class CalibrationQuality:
    """How far probabilities are from the shares that match."""

    error: float
    """Expected calibration error over all pairs."""
    log_loss: float
    """Mean −log of the probability given to the truth, in nats per pair."""
    first_error: float
    """Expected calibration error of the first hits alone, which people see."""
    reliability: tuple[tuple[float, float, int], ...]
    """(mean probability, share that matches, pairs) of each bin that is not empty."""


@dataclass(frozen=True)
class Risk:
    """The risk of the answers when the least sure queries are refused; `area` is AURC, its mean over all coverages."""

    curve: RiskCoverage
    area: float


@dataclass(frozen=True)
class Separation:
    """How well queries with a match are told from queries without one."""

    auroc: float
    recall: float
    """The share of queries with a match that are answered."""
    false_alarm: float
    """The share of queries without a match that are answered."""
    over_half: float
    """The share of queries without a match whose best hit has a probability above one half."""


@dataclass(frozen=True)
class CalibrationReport:
    """The quality of a confidence."""

    captions: int
    images: int
    threshold: float
    """The probability that the best hit must have for a query to be answered."""
    raw: CalibrationQuality
    calibrated: CalibrationQuality
    removed: Separation
    """Each caption against itself with all of its matches removed from the gallery."""
    unmatched: Separation | None
    """Against other captions, written to match nothing here."""
    by_p: Risk
    by_sigma: Risk | None
    expected: float
    """The mean over captions of Σ p, as a share of the mean number of matches: 1 is right."""
    raw_expected: float
    expected_order: float
    """Spearman's ρ of Σ p with the number of matches."""


def assess(
    confidence: Confidence, score: Score, pairs: EvaluationSet, *, unmatched: Embedding | None = None
) -> CalibrationReport:
    """Assess a confidence; `unmatched` are captions that match none of the images."""
    raw, mapped, hits = _Accumulator(), _Accumulator(), BestHits(slice(None), np.array([len(pairs.images)]))
    for _, log_p, truth in log_probabilities(score, pairs):
        odds = log_odds(log_p)
        raw.add(odds, truth)
        calibrated = confidence.curve(odds)
        mapped.add(calibrated, truth)
        hits.add(calibrated, truth)
    answerable, counts = pairs.matches.answerable, pairs.matches.counts.astype(np.float64)
    best, right, (wrong,) = hits.joined()
    present, right, removed = best[answerable], right[answerable], wrong[np.isfinite(wrong)]
    written = None if unmatched is None else _best(confidence, score, pairs, unmatched)
    threshold = confidence.presence.threshold(len(pairs.images))
    sigma = pairs.captions.uncertainty()
    return CalibrationReport(
        captions=len(pairs.captions),
        images=len(pairs.images),
        threshold=threshold,
        raw=raw.quality,
        calibrated=mapped.quality,
        removed=_separation(present, removed, threshold),
        unmatched=None if written is None else _separation(present, written, threshold),
        by_p=_risk(present, right),
        by_sigma=None if sigma is None else _risk(-sigma.numpy()[answerable], right),
        expected=float(mapped.expected.mean() / counts.mean()),
        raw_expected=float(raw.expected.mean() / counts.mean()),
        expected_order=rank_correlation(mapped.expected, counts),
    )


@dataclass
class _Accumulator:
    """The sums behind `CalibrationQuality`, filled block by block."""

    pairs: Calibration = field(default_factory=Calibration)
    first: Calibration = field(default_factory=Calibration)
    loss: float = 0.0
    sums: list[Float64[np.ndarray, " q"]] = field(default_factory=list)

    def add(self, odds: Float64[np.ndarray, "q g"], truth: Bool[np.ndarray, "q g"]) -> None:
        p = expit(odds)
        self.pairs.add(p, truth)
        top = odds.argmax(1)[:, None]
        self.first.add(np.take_along_axis(p, top, 1), np.take_along_axis(truth, top, 1))
        self.loss += float(np.logaddexp(0, np.where(truth, -odds, odds)).sum())
        self.sums.append(p.sum(1))

    @property
    def expected(self) -> Float64[np.ndarray, " q"]:
        return np.concatenate(self.sums)

    @property
    def quality(self) -> CalibrationQuality:
        mean_loss = self.loss / float(self.pairs.count.sum())
        return CalibrationQuality(self.pairs.error, mean_loss, self.first.error, self.pairs.reliability)


def _best(confidence: Confidence, score: Score, pairs: EvaluationSet, queries: Embedding) -> Float64[np.ndarray, " m"]:
    """The log-odds of the best hit of queries that match nothing here."""
    nothing = Matches.from_pairs([], [], (len(queries), len(pairs.images)))
    blocks = log_probabilities(score, replace(pairs, captions=queries, matches=nothing))
    return np.concatenate([confidence.curve(log_odds(log_p.max(1))) for _, log_p, _ in blocks])


def _separation(present: Float64[np.ndarray, " n"], absent: Float64[np.ndarray, " m"], threshold: float) -> Separation:
    return Separation(
        auroc(present, absent),
        float((expit(present) >= threshold).mean()),
        float((expit(absent) >= threshold).mean()),
        float((absent > 0).mean()),
    )


def _risk(sureness: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> Risk:
    return Risk(risk_coverage(sureness, right), area(sureness, right))
