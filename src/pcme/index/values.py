"""The scores that decide: of a query with given items, as `Score.topk` has them.

Where a score rounds by what else is in the gallery (densities are scaled by the gallery's average
σ), the same scaling is used here, so that a search and an evaluation agree to the last bit.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from pcme.embedding import Embedding, Gaussian, Points
from pcme.kernels import overlap
from pcme.scores.base import Score
from pcme.scores.densities import DensityScore
from pcme.scores.match_prob import MatchProbability

__all__ = ["Exact", "Extent", "distances_of_points"]

LISTED = 8192
"""Up to so many items are scored pair by pair, more by matrix products: what costs less."""


@dataclass(frozen=True)
class Extent:
    """Of a gallery's dimensions: the average log σ, and how far log σ and μ reach from it."""

    log_centre: Float[Tensor, " d"]
    log_reach: Float[Tensor, " d"]
    largest: Float[Tensor, " d"]

    @classmethod
    def of(cls, gallery: Gaussian) -> "Extent":
        """That of a gallery."""
        log_centre = gallery.log_sigma.mean(0).expand(gallery.dim)
        low, high = (
            torch.stack([f(part.log_sigma, 0) for part in _parts(gallery)])
            for f in (torch.amin, torch.amax)
        )
        largest = torch.stack([part.mean.abs().amax(0) for part in _parts(gallery)]).amax(0)
        reach = torch.maximum(high.amax(0) - log_centre, log_centre - low.amin(0))
        return cls(log_centre, reach, largest)

    def scaling(self, query: Gaussian) -> overlap.Scaling:
        """What `elk.Scaling.of(query, gallery)` is, without another look at the gallery."""
        ends = Gaussian(
            torch.stack((self.largest, -self.largest)),
            torch.stack((self.log_centre + self.log_reach, self.log_centre - self.log_reach)),
        )
        return overlap.Scaling(self.log_centre, overlap.Scaling.of(query, ends).dtype)


@dataclass(frozen=True)
class Exact:
    """A score and what it must know of the whole gallery."""

    score: Score
    extent: Extent | None = None

    @torch.no_grad()
    def __call__(self, query: Embedding, items: Embedding) -> Float[Tensor, " n"]:
        """The scores of one query, in single precision."""
        if isinstance(query, Points) and isinstance(self.score, MatchProbability):
            distance = distances_of_points(query, items)
            logits = self.score.shift - self.score.scale * distance
            return logsigmoid(logits).float()
        if isinstance(self.score, DensityScore) and self.extent is not None:
            assert isinstance(query, Gaussian)
            assert isinstance(items, Gaussian)
            return self._density(self.score, query, items, self.extent.scaling(query))
        if len(items) > LISTED:
            return self.score(query, items)[0]
        plan = self.score.plan(query, items)
        listed = torch.arange(len(items))[None]
        return plan.candidates(torch.zeros(1, dtype=torch.int64), listed)[0].float()

    @staticmethod
    def _density(
        score: DensityScore, query: Gaussian, items: Gaussian, scaling: overlap.Scaling
    ) -> Float[Tensor, " n"]:
        m, log_sum = overlap.terms(query, items, scaling)
        own = log_volume(query) + log_volume(items)
        return score.combine(m[0].double(), log_sum[0].double(), own, query.dim).float()


def log_volume(items: Gaussian) -> Float[Tensor, " n"]:
    """Σ log σ over the dimensions, in double precision."""
    return items.log_sigma.double().sum(-1) * (items.dim / items.log_sigma.shape[1])


def distances_of_points(query: Points, items: Embedding) -> Float[Tensor, " n"]:
    """‖x − y‖ in double precision: by differences, so that near ones are right too."""
    assert isinstance(items, Points)
    difference = items.x[:, 0].double() - query.x[0, 0].double()
    return difference.square().sum(1).sqrt()


def _parts(gallery: Gaussian) -> list[Gaussian]:
    return [gallery[i : i + 8192] for i in range(0, len(gallery), 8192)]
