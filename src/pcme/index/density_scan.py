"""The scan for overlap, elk and bhattacharyya: every item's M and L by the compiled kernel.

The kernel is as cheap as any key for these scores could be: it reads each number of an item once.
Items lie ready in its tiles, scaled as the first gallery was; what decides is computed with the
scaling that the gallery has now (`values`), so that a scan need not be made anew with every change.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Float32
from torch import Tensor

from pcme.embedding import Embedding, Gaussian
from pcme.index.resident import Resident
from pcme.index.scans import Scan
from pcme.index.values import Exact, Extent, log_volume
from pcme.kernels import compiled, overlap
from pcme.scores.densities import DensityScore

__all__ = ["DensityScan"]

HALF_ULP = 2.0**-24


@dataclass(frozen=True)
class _Made:
    tiles: compiled.Array
    count: int
    volume: Float32[Tensor, " n"]
    """γ Σ log σ."""
    widest: Float[Tensor, " d"]
    """The largest scaled variance in each dimension."""


class DensityScan(Scan[_Made]):
    """Keys: −α M − β L + γ Σ log σ₂, in single precision."""

    def __init__(self, score: DensityScore, resident: Resident) -> None:
        super().__init__(score, resident)
        self.density = score
        self.weights = score.weights(resident.settings.dim)
        self._scaling: overlap.Scaling | None = None

    def made(self, items: Embedding) -> _Made:
        """Tiles of scaled means and variances."""
        assert isinstance(items, Gaussian)
        assert self._scaling is not None
        mean, variance = self._scaling.apply(items)
        variance = variance.expand_as(mean)
        tiles = compiled.pack(*compiled.pad(mean.numpy(), variance.numpy()))
        volume = (self.weights[2] * log_volume(items)).float()
        return _Made(tiles, len(items), volume, variance.amax(0))

    def keys(self, queries: Embedding, items: Embedding, made: _Made) -> Float32[Tensor, "q n"]:
        """Both sums in one pass over the tiles."""
        mean, variance = self._scaled(queries)
        padded = compiled.pad(mean.numpy(), variance.numpy())
        m, log_sum = compiled.kernel_sums(padded, made.tiles, made.count, torch.get_num_threads())
        alpha, beta, _ = self.weights
        found = made.volume - alpha * torch.from_numpy(m) - beta * torch.from_numpy(log_sum)
        return found.float()

    def upper(self, queries: Embedding, keys: Float[Tensor, " q"]) -> Float[Tensor, " q"]:
        """The score from the key, and from what two evaluations of the kernel may be off by.

        A sum of D terms, four at a time, is off by less than D/4 + 16 half-units in the last place
        of its size; M's size follows from the key, L lies between that of the query alone and that
        beside the widest item.
        """
        assert isinstance(queries, Gaussian)
        assert self._scaling is not None
        _, beta, gamma = self.weights
        _, variance = (part.double() for part in self._scaled(queries))
        low, high = variance.log().sum(1), (variance + self._widest).log().sum(1)
        largest = torch.maximum(low.abs(), high.abs()) + queries.dim
        most_m = (self._volume - keys - beta * low).clamp_min(0)  # α M
        size = most_m + beta * largest + self._volume.abs()
        error = 2 * (queries.dim / 4 + 16) * HALF_ULP * size
        own = gamma * log_volume(queries) - beta * self._scaling.log_volume
        bound = self.density.finish(keys + own + error, queries.dim)
        return torch.where(self._in_range(queries), bound, torch.inf)

    def renewed(self) -> None:
        """The scaling that decides, and the ends of all blocks."""
        whole = self.resident.embedding
        assert isinstance(whole, Gaussian)
        self._extent = Extent.of(whole)
        self.exact = Exact(self.score, self._extent)
        if self._scaling is None or self._scaling.dtype != self._dtype(whole[0]):
            self._scaling = self._extent.scaling(whole[0])
            self.forget()
        made = self.all_made()
        self._widest = torch.stack([part.widest for part in made]).amax(0).double()
        self._volume = torch.stack([part.volume.max() for part in made]).max().double()

    def _scaled(self, queries: Embedding) -> tuple[Float32[Tensor, "q d"], Float32[Tensor, "q d"]]:
        assert isinstance(queries, Gaussian)
        assert self._scaling is not None
        mean, variance = self._scaling.apply(queries)
        return mean, variance.expand_as(mean)

    def _in_range(self, queries: Gaussian) -> Bool[Tensor, " q"]:
        """Whether the scaling's precision is enough for each query."""
        assert self._scaling is not None
        enough = [self._dtype(queries[n]) == self._scaling.dtype for n in range(len(queries))]
        return torch.tensor(enough)

    def _dtype(self, query: Gaussian) -> torch.dtype:
        return self._extent.scaling(query).dtype
