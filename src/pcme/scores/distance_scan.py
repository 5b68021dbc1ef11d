"""Scans by one matrix product, with a bound by algebra.

`LiftedScan` serves every lifted score. `DistanceScan` serves those that fall with a distance, and needs no copy of the
items: its keys are the score but for rounding and a monotone function. For `match_prob` they are the mean of the
squared distance, and `bounds.upper_log_match` bounds the match probability at such a mean.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Float32, Float64
from torch import Tensor

from pcme.embedding import Embedding, Gaussian
from pcme.kernels import bounds, topk
from pcme.kernels.analytic import TINY
from pcme.kernels.quadrature import Scalar
from pcme.scores.gallery import Gallery
from pcme.scores.plans import Lift, Lifted, Normal, Side, Squash, gaussian
from pcme.scores.scan import BLOCK, HALF_ULP, MakePlan, Scan

CHUNK_BYTES = 4 << 20
"""Temporaries that the allocator keeps for reuse; larger ones are paged in anew each time."""


class LiftedScan(Scan[Lifted, None]):
    """Keys: the lifted product in float32, whose worst rounding error bounds the score."""

    def __init__(self, plan: MakePlan, gallery: Gallery, lift: Lift) -> None:
        super().__init__(plan, gallery)
        self.lift = lift

    def width(self, k: int) -> int:
        """A few more than k: keys are right but for rounding."""
        return k + 32

    def renew(self) -> None:
        """The centre about which products cancel least."""
        self._centre = gaussian(self.gallery.embedding[:BLOCK]).mean.mean(0).float()
        self._longest = self._largest = 0.0

    def prepare(self, queries: Embedding) -> Lifted:
        """The queries, lifted."""
        prepared = self._lift(queries, "query")
        self.key_width = prepared.vectors.shape[1]
        return prepared

    def keys(self, queries: Lifted, items: Embedding, kept: None, part: slice) -> Float32[Tensor, "q n"]:
        """One product; the queries' offsets do not change their order."""
        lifted = self._lift(items, "item")
        self._longest = max(self._longest, float(lifted.vectors.norm(dim=1).max()))
        self._largest = max(self._largest, float(lifted.offset.abs().max()))
        return torch.addmm(lifted.offset, queries.vectors, lifted.vectors.T)

    def upper(self, queries: Embedding, keys: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        """The key and its worst rounding error: γ (‖v₁‖ ‖v₂‖ + |o₂|), γ = n u."""
        left = self._lift(queries, "query")
        norms, offsets = left.vectors.double().norm(dim=1).cpu(), left.offset.double().cpu()
        size: Tensor = norms * self._longest + self._largest + offsets.abs()
        return keys + offsets + 1.01 * (left.vectors.shape[1] + 8) * HALF_ULP * size

    def _lift(self, items: Embedding, side: Side) -> Lifted:
        part = gaussian(items)
        mean = part.mean.float() - self._centre
        return self.lift(Normal(mean, part.log_sigma.float().expand_as(mean)), side)


@dataclass(frozen=True)
class _Kept:
    offset: Float32[Tensor, " n"]
    """−‖μ‖² − Σσ²."""
    longest: float
    """The largest ‖μ‖."""
    ends: Float64[Tensor, "2 5"] | None
    """The least and the largest of `bounds.extent`."""


class DistanceScan(Scan[Float32[Tensor, "q d"], _Kept]):
    """Keys: ⟨2μ₁, μ₂⟩ − ‖μ₂‖² − Σσ₂²; `squash` makes the score of minus a distance."""

    def __init__(
        self, plan: MakePlan, gallery: Gallery, squash: Squash = torch.positive, *, by_sigma: bool = True
    ) -> None:
        super().__init__(plan, gallery)
        self.squash, self.by_sigma = squash, by_sigma

    def width(self, k: int) -> int:
        """A few more than k: keys are right but for rounding."""
        return k + 32

    def prepare(self, queries: Embedding) -> Float32[Tensor, "q d"]:
        """2μ."""
        return 2 * queries.points()[:, 0].float()

    def keep(self, items: Embedding) -> _Kept:
        """What an item adds on its own, and the ends of what it can add to the bound."""
        step = max(1, CHUNK_BYTES // (4 * items.dim))
        parts = [self._keep(items[i : i + step]) for i in range(0, len(items), step)]
        return _Kept(torch.cat([part.offset for part in parts]), max(part.longest for part in parts), _ends(parts))

    def keys(
        self, queries: Float32[Tensor, "q d"], items: Embedding, kept: _Kept, part: slice
    ) -> Float32[Tensor, "q n"]:
        """One product."""
        mean, offset = items.points()[:, 0].float(), kept.offset[part]
        if len(queries) == 1 and mean.device.type == "cpu":
            sides = mean.numpy(), queries[0].numpy(), offset.numpy()
            return torch.from_numpy(topk.products(*sides, torch.get_num_threads()))[None]
        return torch.addmm(offset, queries, mean.T)

    def upper(self, queries: Embedding, keys: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        """The score at the least distance that a key and its rounding allow."""
        mean = queries.points()[:, 0].double().cpu()
        offset = mean.square().sum(1) + self._spread(queries).double().cpu()
        size = 2 * mean.norm(dim=1) * self._longest + self._largest + offset
        error = 1.01 * (queries.dim + 8) * HALF_ULP * size
        return self.at(queries, keys - offset + error)

    def at(self, queries: Embedding, closeness: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        """The score of a pair whose −E‖z₁−z₂‖² is this, or the most that it can be."""
        return self.squash(closeness)

    def renew(self) -> None:
        """The ends of all blocks."""
        kept = self.all_kept()
        self._longest = max(part.longest for part in kept)
        self._largest = max(float(part.offset.abs().max()) for part in kept)

    def _keep(self, items: Embedding) -> _Kept:
        square = items.points()[:, 0].square().sum(1)
        offset = (square + self._spread(items)).float()
        return _Kept(-offset, float(square.max().sqrt()), None)

    def _spread(self, items: Embedding) -> Float[Tensor, " n"]:
        """Σσ², or nothing where σ does not count."""
        if not self.by_sigma or not isinstance(items, Gaussian):
            return torch.zeros(len(items), device=items.device)
        variance = (2 * items.log_sigma).exp().clamp_min(TINY)
        return variance.sum(-1) * (items.dim / variance.shape[1])


class MatchScan(DistanceScan):
    """For the analytic match probability, which has the order of the keys only nearly."""

    def __init__(self, plan: MakePlan, gallery: Gallery, scale_and_shift: tuple[Scalar, Scalar]) -> None:
        super().__init__(plan, gallery)
        self.scale_and_shift = scale_and_shift
        self._centre: Float[Tensor, " d"] | None = None

    def width(self, k: int) -> int:
        """Long enough for most queries, measured on trained embeddings."""
        return 96 * k + 576

    def renew(self) -> None:
        """The centre stays as long as any block does."""
        if self._centre is None or not self._kept:
            self._centre = gaussian(self.gallery.embedding[:4096]).mean.mean(0)
        super().renew()
        ends = _ends(self.all_kept())
        assert ends is not None
        self._least, self._most = ends

    def at(self, queries: Embedding, closeness: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        """The narrow rule at the most favourable variance that an expected distance allows."""
        extent = self._extent(queries)
        limits = bounds.Limits.of(extent, self._least, self._most, queries.dim)
        return bounds.upper_log_match(-closeness, limits, *self.scale_and_shift)

    def _keep(self, items: Embedding) -> _Kept:
        kept, extent = super()._keep(items), self._extent(items)
        return _Kept(kept.offset, kept.longest, torch.stack((extent.amin(1), extent.amax(1))))

    def _extent(self, items: Embedding) -> Float64[Tensor, "5 n"]:
        assert self._centre is not None
        return bounds.extent(gaussian(items), self._centre)


def _ends(parts: list[_Kept]) -> Float64[Tensor, "2 5"] | None:
    """The least of the least, and the largest of the largest, where the parts have them."""
    ends = [part.ends for part in parts if part.ends is not None]
    if not ends:
        return None
    least, most = torch.stack(ends, 1)
    return torch.stack((least.amin(0), most.amax(0)))
