"""The scan for scores that fall with a distance: one matrix product, and a bound by algebra.

Of `mean`, `csd`, `csd_prob` and match probabilities of points the key is the score but for rounding
and a monotone function; of `match_prob` it is the mean of the squared distance, and
`quadrature.upper_log_match` says what a match probability can at most be at such a mean.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32, Float64
from torch import Tensor
from torch.nn.functional import logsigmoid

from pcme.embedding import Embedding, Gaussian, Points
from pcme.index.resident import Resident
from pcme.index.scans import Scan
from pcme.kernels import analytic
from pcme.kernels.products import products
from pcme.scores.base import Score
from pcme.scores.csd_prob import ExpectedMatch
from pcme.scores.match_prob import MatchProbability

__all__ = ["DistanceScan"]

HALF_ULP = 2.0**-24
ROUNDING = 1.001
"""Covers the single-precision sums behind the limits."""
TINY = torch.finfo(torch.float32).tiny
"""The least variance, as in `scores.match_prob`: 0 would leave no spread to divide by."""


@dataclass(frozen=True)
class _Made:
    own: Float32[Tensor, " n"]
    """−‖μ‖² − Σσ²."""
    longest: float
    """The largest ‖μ‖."""
    sums: Float64[Tensor, "2 5"] | None
    """The least and the largest of `_extent`."""


class DistanceScan(Scan[_Made]):
    """Keys: ⟨2μ₁, μ₂⟩ − ‖μ₂‖² − Σσ₂²."""

    def __init__(self, score: Score, resident: Resident) -> None:
        super().__init__(score, resident)
        kind = resident.settings.score.kind
        self.by_spread = kind != "mean" and resident.settings.spread != "none"
        self.by_quadrature = isinstance(score, MatchProbability) and self.by_spread

    def width(self, k: int) -> int:
        """A match probability has the order of the keys only nearly."""
        return 96 * k + 576 if self.by_quadrature else 2 * k + 64

    def made(self, items: Embedding) -> _Made:
        """What an item brings of its own, and the ends of what it can bring to the bound."""
        mean = _means(items)
        own = mean.square().sum(1)
        longest = float(own.max().sqrt())
        if self.by_spread:
            own += _variance(items).sum(-1) * (items.dim / _variance(items).shape[1])
        if not self.by_quadrature:
            return _Made(-own, longest, None)
        extent = _extent(items)
        return _Made(-own, longest, torch.stack((extent.amin(1), extent.amax(1))))

    def keys(self, queries: Embedding, items: Embedding, made: _Made) -> Float32[Tensor, "q n"]:
        """One product."""
        left = 2 * _means(queries)
        if len(left) == 1:
            sides = _means(items).numpy(), left[0].numpy(), made.own.numpy()
            return torch.from_numpy(products(*sides, torch.get_num_threads()))[None]
        return torch.addmm(made.own, left, _means(items).T)

    def upper(self, queries: Embedding, keys: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        """The score at the least distance that a key and its rounding allow."""
        mean = _means(queries).double()
        own = mean.square().sum(1)
        if self.by_spread:
            own = own + _variance(queries).double().expand_as(mean).sum(-1)
        size = 2 * mean.norm(dim=1) * self._longest + self._largest + own
        error = 1.01 * (queries.dim + 8) * HALF_ULP * size
        return self._at(queries, keys - own + error)

    def renewed(self) -> None:
        """The ends of all blocks."""
        made = self.all_made()
        self._longest = max(part.longest for part in made)
        self._largest = max(float(part.own.abs().max()) for part in made)
        if self.by_quadrature:
            sums = torch.stack([part.sums for part in made if part.sums is not None])
            self._least, self._most = sums[:, 0].amin(0) / ROUNDING, sums[:, 1].amax(0) * ROUNDING

    def _at(self, queries: Embedding, closeness: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        """The score of a pair whose −E‖z₁−z₂‖² is this, or the most that it can be."""
        if isinstance(self.score, ExpectedMatch):
            return self.score.of(closeness)
        if not isinstance(self.score, MatchProbability):
            return closeness
        if not self.by_quadrature:  # points: the distance is the distance
            distance = (-closeness).clamp_min(0).sqrt()
            return logsigmoid(self.score.shift - self.score.scale * distance)
        return analytic.upper_log_match(
            -closeness, self._limits(queries), *self.score.scale_and_shift
        )

    def _limits(self, queries: Embedding) -> analytic.Limits:
        """As in `scores.match_prob`: what is known of every pair before looking at the item."""
        own = _extent(queries)
        spread, spread2, widest, uneven, norm4 = own * ROUNDING
        most = self._most
        return analytic.Limits(
            least_spread=own[0] / ROUNDING + self._least[0],
            most_spread=spread + most[0],
            most_spread2=(spread2.sqrt() + most[1].sqrt()).square(),
            most_uneven=(norm4 + most[4]).square() * (uneven + most[3]),
            widest=widest + most[2],
            dim=queries.dim,
        )


def _means(items: Embedding) -> Float32[Tensor, "n d"]:
    return items.x[:, 0] if isinstance(items, Points) else items.mean


def _variance(items: Embedding) -> Float32[Tensor, "n s"]:
    assert isinstance(items, Gaussian)
    return (2 * items.log_sigma).exp().clamp_min(TINY)


def _extent(items: Embedding) -> Float64[Tensor, "5 n"]:
    """Σ σ², Σ σ⁴, max σ², ‖σ² − mean σ²‖ and ‖μ‖₄ of each item."""
    mean = _means(items)
    variance = _variance(items).expand_as(mean)
    uneven = (variance - variance.mean(-1, keepdim=True)).norm(dim=1)
    norm4 = mean.square().square().sum(-1).sqrt().sqrt()
    sums = (variance.sum(-1), variance.square().sum(-1), variance.amax(-1))
    return torch.stack((*sums, uneven, norm4)).double()
