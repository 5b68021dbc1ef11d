"""Plan and scans of overlap, elk and bhattacharyya: every item's M and L by the compiled kernel.

The kernel is as cheap as any key for these scores could be: it reads each number of an item once. A gallery that lasts
lies ready in the kernel's tiles, scaled as it was at first; what decides is computed with its scaling of now.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Float32, Float64, Int
from torch import Tensor

from pcme.embedding import Embedding, Gaussian
from pcme.kernels import compiled, overlap
from pcme.kernels.threads import Array
from pcme.scores.gallery import Gallery
from pcme.scores.plans import Plan, Rows, gaussian
from pcme.scores.scan import HALF_ULP, NEVER, Kept, Prepared, Scan

STEPS = 6
"""Multiply-adds per dimension of `compiled.kernel_sums`: 24 for every four dimensions."""


class Density(ABC):
    """−α M − β L + γ (Σ log σ₁ + Σ log σ₂), finished by a monotone function; M and L are those of `kernels.overlap`."""

    @abstractmethod
    def weights(self, dim: int) -> tuple[float, float, float]:
        """(α, β, γ), all ≥ 0."""

    @abstractmethod
    def finish(self, x: Float[Tensor, "*n"], dim: int) -> Float[Tensor, "*n"]:
        """The score from −α M − β L + γ (…): monotone."""

    def combine(
        self, m: Float[Tensor, "*n"], log_sum: Float[Tensor, "*n"], volume: Float[Tensor, "*#n"], dim: int
    ) -> Float[Tensor, "*n"]:
        """The score from its three sums."""
        alpha, beta, gamma = self.weights(dim)
        return self.finish(-alpha * m - beta * log_sum + gamma * volume, dim)


class DensityPlan(Plan):
    """Blocks by `overlap.terms`, scaled alike for all queries; candidates query by query, in the gallery's `extent`."""

    def __init__(
        self, score: Density, queries: Gaussian, gallery: Gaussian, extent: overlap.Extent | None = None
    ) -> None:
        super().__init__(queries, gallery)
        self.score, self.left, self.right = score, queries, gallery
        self.extent = extent or overlap.Extent.of(gallery)
        self.work = STEPS * queries.dim
        self.bytes_per_pair, self.bytes_per_item = 40, 48 * queries.dim
        self.bytes_per_candidate = 64

    def block(self, rows: Rows, columns: slice) -> Float[Tensor, "q g"]:
        """The compiled kernel, finished in float64."""
        m, log_sum = overlap.terms(self.left[rows], self.right[columns], self._scaling)
        volume = self._volumes[0][rows][:, None] + self._volumes[1][columns]
        return self.score.combine(m.double(), log_sum.double(), volume, self.left.dim)

    def candidates(self, rows: Int[Tensor, " q"], ids: Int[Tensor, "q m"]) -> Float[Tensor, "q m"]:
        """Query by query through the same kernel."""
        return torch.cat([self._row(int(q), listed) for q, listed in zip(rows, ids, strict=True)])

    def _row(self, query: int, ids: Int[Tensor, " m"]) -> Float[Tensor, "1 m"]:
        left, right = self.left[query], self.right[ids]
        m, log_sum = overlap.terms(left, right, self.extent.scaling(left))
        volume = left.log_volume() + right.log_volume()
        return self.score.combine(m.double(), log_sum.double(), volume, left.dim)

    @cached_property
    def _scaling(self) -> overlap.Scaling:
        return self.extent.scaling(self.left)

    @cached_property
    def _volumes(self) -> tuple[Float64[Tensor, " q"], Float64[Tensor, " g"]]:
        return self.left.log_volume(), self.right.log_volume()


@dataclass(frozen=True)
class _Kept:
    tiles: Array
    volume: Float32[Tensor, " n"]
    """γ Σ log σ."""
    widest: Float[Tensor, " d"]
    """The largest scaled variance per dimension."""


class _ExtentScan(Scan[Prepared, Kept]):
    """A scan whose plans round by the scaling of the whole gallery."""

    _extent: overlap.Extent

    def __init__(self, score: Density, gallery: Gallery) -> None:
        super().__init__(self._plan, gallery)
        self.score, self.weights = score, score.weights(gallery.embedding.dim)

    def _plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        return DensityPlan(self.score, gaussian(queries), gaussian(gallery), self._extent)


class DensityScan(_ExtentScan[tuple[Array, Array], _Kept]):
    """Keys: −α M − β L + γ Σ log σ₂ in single precision, for galleries that last."""

    _scaling: overlap.Scaling | None = None

    def width(self, k: int) -> int:
        """Keys are the score but for rounding; computed once, they are no cheaper than it."""
        return 2 * k + 64 if self.gallery.lasting else NEVER

    def renew(self) -> None:
        """The scaling that decides, and the ends of all blocks."""
        whole = gaussian(self.gallery.embedding)
        self._extent = overlap.Extent.of(whole)
        if not self.gallery.lasting:
            return
        if self._scaling is None or self._scaling.dtype != self._dtype(whole[0]):
            self._scaling = self._extent.scaling(whole[0])
            self.forget()
        kept = self.all_kept()
        self._widest = torch.stack([part.widest for part in kept]).amax(0).double()
        self._volume = torch.stack([part.volume.max() for part in kept]).max().double()

    def prepare(self, queries: Embedding) -> tuple[Array, Array]:
        """The scaled queries, filled up."""
        mean, variance = self._scaled(queries)
        return compiled.pad(mean.numpy(), variance.numpy())

    def keep(self, items: Embedding) -> _Kept:
        """Tiles of scaled means and variances."""
        mean, variance = self._scaled(items)
        tiles = compiled.pack(*compiled.pad(mean.numpy(), variance.numpy()))
        volume = (self.weights[2] * gaussian(items).log_volume()).float()
        return _Kept(tiles, volume, variance.amax(0))

    def keys(self, queries: tuple[Array, Array], items: Embedding, kept: _Kept, part: slice) -> Float32[Tensor, "q n"]:
        """Both sums in one pass over the tiles."""
        tiles = kept.tiles[part.start // compiled.TILE : -(-part.stop // compiled.TILE)]
        sums = compiled.kernel_sums(queries, tiles, len(items), torch.get_num_threads())
        m, log_sum = (torch.from_numpy(total) for total in sums)
        alpha, beta, _ = self.weights
        return (kept.volume[part] - alpha * m - beta * log_sum).float()

    def upper(self, queries: Embedding, keys: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        """The score from the key, and from what two evaluations of the kernel may be off by.

        A sum of D terms, four at a time, is off by less than D/4 + 16 half-units in the last place of its size; M's
        size follows from the key, L lies between that of the query alone and that beside the widest item.
        """
        assert self._scaling is not None
        _, beta, gamma = self.weights
        _, variance = (part.double() for part in self._scaled(queries))
        low, high = variance.log().sum(1), (variance + self._widest).log().sum(1)
        largest = torch.maximum(low.abs(), high.abs()) + queries.dim
        most_m = (self._volume - keys - beta * low).clamp_min(0)  # α M
        size = most_m + beta * largest + self._volume.abs()
        error = 2 * (queries.dim / 4 + 16) * HALF_ULP * size
        offset = gamma * gaussian(queries).log_volume() - beta * self._scaling.log_volume
        bound = self.score.finish(keys + offset + error, queries.dim)
        in_range = [self._dtype(queries[n]) == self._scaling.dtype for n in range(len(queries))]
        return torch.where(torch.tensor(in_range), bound, torch.inf)

    def _scaled(self, items: Embedding) -> tuple[Float[Tensor, "n d"], Float[Tensor, "n d"]]:
        assert self._scaling is not None
        mean, variance = self._scaling.apply(gaussian(items))
        return mean, variance.expand_as(mean)

    def _dtype(self, query: Embedding) -> torch.dtype:
        """The precision that is enough for a query."""
        return self._extent.scaling(gaussian(query)).dtype


_Features = tuple[Float32[Tensor, "q l"], Float[Tensor, " d"]]
"""The queries' side of the keys, and z₀."""


class SeparableScan(_ExtentScan[_Features, None]):
    """Keys by 1/z ≈ (e/z₀) e^(−z/z₀) and log z ≈ log z₀ + 1 − e·e^(−z/z₀), z₀ the mean of σ₁²+σ₂².

    Both are right to second order and separable, so that a key is one product of 3D columns, but they prove nothing:
    for `topk(exact=False)`.
    """

    proves = False

    def __init__(self, score: Density, gallery: Gallery) -> None:
        super().__init__(score, gallery)
        self.key_width = 3 * gallery.embedding.dim

    def width(self, k: int) -> int:
        """Recall is measured in `make bench`."""
        return 8 * k + 56

    def renew(self) -> None:
        """The gallery's scale, and its mean variance in it."""
        whole = gaussian(self.gallery.embedding)
        self._extent = overlap.Extent.of(whole)
        self._scaling = self._extent.scaling(whole[0])
        parts = [whole[i : i + 4096] for i in range(0, len(whole), 4096)]
        sums = torch.stack([self._scaling.apply(part)[1].sum(0) for part in parts])
        self._mean_variance = sums.sum(0) / len(whole)

    def prepare(self, queries: Embedding) -> _Features:
        """The queries' side of the product, and z₀."""
        mean, variance = self._scaling.apply(gaussian(queries))
        typical = variance.mean(0) + self._mean_variance
        fade = (-variance / typical).exp()
        return torch.cat((mean.square() * fade, mean * fade, fade), -1).float(), typical

    def keys(self, queries: _Features, items: Embedding, kept: None, part: slice) -> Float32[Tensor, "q n"]:
        """One product."""
        (features, typical), (alpha, beta, gamma) = queries, self.weights
        mean, variance = self._scaling.apply(gaussian(items))
        fade = math.e * (-variance / typical).exp()
        slope = alpha / typical * fade
        parts = (-slope, 2 * slope * mean, beta * fade - slope * mean.square())
        volume = (gamma * gaussian(items).log_volume()).float()
        return torch.addmm(volume, features, torch.cat(parts, -1).float().T)
