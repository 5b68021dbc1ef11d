"""Is a confidence worth its name? Judged on captions and images that it was not fitted on."""

from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Float64
from scipy.special import expit

from pcme.embedding import Embedding
from pcme.retrieval.matches import Matches
from pcme.scores.base import Score
from pcme.uncertainty.confidence import Confidence
from pcme.uncertainty.curve import log_odds
from pcme.uncertainty.parts import Part, log_probabilities, uncertainty
from pcme.uncertainty.refusal import Refusal, area, refusal
from pcme.uncertainty.statistics import Calibration, auroc, rank_correlation

__all__ = ["Belief", "Report", "Risk", "Separation", "judged"]


@dataclass(frozen=True)
class Belief:
    """How far probabilities are from what comes true."""

    error: float
    """Expected calibration error over all pairs."""
    log_loss: float
    """Mean −log of the probability given to what is the case, in nats a pair."""
    first_error: float
    """Expected calibration error of the first hits alone, which is what a person sees."""
    reliability: tuple[tuple[float, float, int], ...]
    """(mean probability, share that matches, pairs) of each bin that holds any."""


@dataclass(frozen=True)
class Separation:
    """Queries that something here matches told from those that nothing matches."""

    auroc: float
    recall: float
    """The share of those with a match that is answered."""
    false_alarm: float
    """The share of those without one that is answered."""
    over_half: float
    """The share of those without one whose best hit has a probability above one half."""

    @property
    def precision(self) -> float:
        """Of what is answered, the share with a match, when there are as many with as without."""
        return self.recall / max(self.recall + self.false_alarm, 1e-12)


@dataclass(frozen=True)
class Risk:
    """The risk of what is answered when the least sure queries are refused."""

    curve: Refusal
    area: float
    """AURC, the mean of the risk over all coverages."""


@dataclass(frozen=True)
class Report:
    """All that can be said of a confidence."""

    captions: int
    images: int
    threshold: float
    """The probability that the best hit must have for a query to be answered."""
    raw: Belief
    calibrated: Belief
    removed: Separation
    """Each caption against itself with all of its matches taken out of the gallery."""
    unmatched: Separation | None
    """Against other captions, written to match nothing here."""
    by_p: Risk
    by_sigma: Risk | None
    expected: float
    """The mean over captions of Σ p, as a share of the mean number of matches: 1 is right."""
    raw_expected: float
    expected_order: float
    """Spearman's ρ of Σ p with the number of matches."""


def judged(
    confidence: Confidence, score: Score, part: Part, *, unmatched: Embedding | None = None
) -> Report:
    """The report of a part; `unmatched` are captions that match none of its images."""
    raw, mapped, hits = _Beliefs(), _Beliefs(), _Hits()
    for _, log_p, truth in log_probabilities(score, part):
        own = log_odds(log_p)
        raw.add(own, truth)
        mapped.add(confidence.curve(own), truth)
        hits.add(confidence.curve(own), truth)
    answerable, counts = part.matches.answerable, part.matches.counts.astype(np.float64)
    present, right = np.concatenate(hits.best)[answerable], np.concatenate(hits.right)[answerable]
    threshold = confidence.presence.threshold(len(part.images))
    spread = uncertainty(part.captions)
    return Report(
        captions=len(part.captions),
        images=len(part.images),
        threshold=threshold,
        raw=raw.belief,
        calibrated=mapped.belief,
        removed=_separated(present, hits.best_wrong, threshold),
        unmatched=None
        if unmatched is None
        else _separated(present, _best(confidence, score, part, unmatched), threshold),
        by_p=_risk(present, right),
        by_sigma=None if spread is None else _risk(-spread[answerable], right),
        expected=float(mapped.expected.mean() / counts.mean()),
        raw_expected=float(raw.expected.mean() / counts.mean()),
        expected_order=rank_correlation(mapped.expected, counts),
    )


@dataclass
class _Beliefs:
    """Filled block by block."""

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
    def belief(self) -> Belief:
        return Belief(
            self.pairs.error,
            self.loss / float(self.pairs.count.sum()),
            self.first.error,
            self.pairs.reliability,
        )


@dataclass
class _Hits:
    """The best hit of each caption, filled block by block."""

    best: list[Float64[np.ndarray, " q"]] = field(default_factory=list)
    right: list[Bool[np.ndarray, " q"]] = field(default_factory=list)
    wrong: list[Float64[np.ndarray, " q"]] = field(default_factory=list)

    def add(self, odds: Float64[np.ndarray, "q g"], truth: Bool[np.ndarray, "q g"]) -> None:
        first = odds.argmax(1)[:, None]
        self.best.append(odds.max(1))
        self.right.append(np.take_along_axis(truth, first, 1)[:, 0])
        self.wrong.append(np.where(truth, -np.inf, odds).max(1))

    @property
    def best_wrong(self) -> Float64[np.ndarray, " n"]:
        """Of the captions that do not match everything."""
        every = np.concatenate(self.wrong)
        found: Float64[np.ndarray, " n"] = every[np.isfinite(every)]
        return found


def _best(
    confidence: Confidence, score: Score, part: Part, queries: Embedding
) -> Float64[np.ndarray, " m"]:
    """The log-odds of the best hit of queries that match nothing here."""
    nothing = Matches.from_pairs([], [], (len(queries), len(part.images)))
    blocks = log_probabilities(score, replace(part, captions=queries, matches=nothing))
    return np.concatenate([confidence.curve(log_odds(log_p.max(1))) for _, log_p, _ in blocks])


def _separated(
    present: Float64[np.ndarray, " n"], absent: Float64[np.ndarray, " m"], threshold: float
) -> Separation:
    return Separation(
        auroc(present, absent),
        float((expit(present) >= threshold).mean()),
        float((expit(absent) >= threshold).mean()),
        float((absent > 0).mean()),
    )


def _risk(sureness: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"]) -> Risk:
    return Risk(refusal(sureness, right), area(sureness, right))
