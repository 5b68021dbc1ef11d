"""Lifts: vectors by which an engine that knows no Gaussians orders items nearly as a score does.

An engine only proposes; the score itself decides. Two lifts serve all scores that have one:

* *distance*, for every score that falls with E‖z₁−z₂‖²: [μ; √Σσ²] for items, [μ; 0] for queries. Its L2 is the expected
  squared distance less the query's own spread: exact for `csd`, `csd_prob` and (without the last number) `mean`; nearly
  the order of `match_prob`.
* *density*, for overlap and its kin. M + L (`kernels.overlap`) is no finite inner product, but
  1/(v₁+v₂) ≈ e^((v̄−v₂)/z) / (v₁+v̄) is right for any query where the item's variance v₂ is the usual one, v̄, and it
  separates; so does the logarithm. That is an inner product of 3D numbers, most of which matter little: the directions
  in which the products of real queries and items vary most are kept. Plain distances are useless here, and so are codes
  of a few bits: small differences of large numbers decide (docs/science/ann.md has the measurements).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

import numpy as np
import safetensors.numpy
from jaxtyping import Float, Float32, Float64
from safetensors import SafetensorError

from pcme.embedding import Embedding, Gaussian
from pcme.errors import FormatError

ALIGNED = 16
"""Vectors are filled up to a multiple of this: product quantisation cuts them into equal parts."""
KEPT = 127
"""Directions of a density lift that are kept; with the length they make 128 numbers."""
FAR = 300.0
"""How much longer than an item a query of an inner product is."""
RIDGE = 1.0
"""How much every direction counts beside those in which the queries it is fitted on vary: with few of them, others vary
elsewhere too (measured on trained embeddings, docs/science/ann.md)."""

PerDimension = Float64[np.ndarray, " d"]
Codes = Literal["product", "none"]
"""How an engine may shorten the vectors: pieces by a codebook, or not at all."""


class Lift(ABC):
    """How items and queries become vectors for an engine that compares them by L2."""

    width: int
    codes: ClassVar[Codes]

    @abstractmethod
    def items(self, items: Embedding) -> Float32[np.ndarray, "n l"]:
        """The vectors to store."""

    @abstractmethod
    def queries(self, queries: Embedding) -> Float32[np.ndarray, "q l"]:
        """The vectors to search by."""


class Ann(ABC):
    """How a score's vectors for an engine come about: at once, or fitted on items and queries."""

    width: int | None
    """Numbers per item from the beginning; None where they must be fitted first."""

    @abstractmethod
    def lift(self, stored: bytes | None = None) -> Lift | None:
        """The lift, as stored where it was fitted; None where it has not been fitted."""

    @abstractmethod
    def fit(self, items: Gaussian, queries: Gaussian) -> "DensityLift":
        """Fit the lift."""


@dataclass(frozen=True)
class DistanceLift(Lift, Ann):
    """L2 between [μ; √Σσ²] and [μ; 0], filled up with zeros; needs no fit."""

    width: int
    by_sigma: bool = True
    codes: ClassVar[Codes] = "product"

    @classmethod
    def of(cls, dim: int, *, by_sigma: bool = True) -> "DistanceLift":
        """That of embeddings of so many dimensions."""
        return cls(_aligned(dim + 1), by_sigma)

    def lift(self, stored: bytes | None = None) -> "DistanceLift":
        """Itself."""
        return self

    def fit(self, items: Gaussian, queries: Gaussian) -> "DensityLift":
        """Never asked for."""
        raise NotImplementedError

    def items(self, items: Embedding) -> Float32[np.ndarray, "n l"]:
        """The mean, and for a Gaussian how wide it is."""
        vectors = self.queries(items)
        if isinstance(items, Gaussian) and self.by_sigma:
            vectors[:, items.dim] = items.variance.double().sum(-1).sqrt().numpy()
        return vectors

    def queries(self, queries: Embedding) -> Float32[np.ndarray, "q l"]:
        """The mean alone: a query's own width is the same for every item."""
        return _filled(queries.points()[:, 0].numpy(), self.width)


@dataclass(frozen=True, eq=False)
class DensityLift(Lift):
    """An inner product in a few directions; all items have one length, so that L2 orders by it."""

    weights: Float64[np.ndarray, "3"]
    """α, β, γ of the score."""
    centre: PerDimension
    usual: PerDimension
    """v̄, the items' mean variance."""
    reach: PerDimension
    """z, the sum of the items' and the queries' mean variance."""
    shift: Float64[np.ndarray, " c"]
    of_items: Float64[np.ndarray, "c p"]
    of_queries: Float64[np.ndarray, "c p"]
    length: Float64[np.ndarray, "1"]
    codes: ClassVar[Codes] = "none"

    @classmethod
    def fit(cls, weights: tuple[float, float, float], items: Gaussian, queries: Gaussian) -> "DensityLift":
        """Fit the lift of a score with these (α, β, γ) on items and queries.

        With second moments Q = G Gᵀ of the queries' weights and covariance C of the items' features, the leading
        eigenvectors of Gᵀ C G keep the most of the products' variance.
        """
        centre = items.mean.double().mean(0).numpy()
        usual, usual_query = (g.variance.double().mean(0).numpy() for g in (items, queries))
        reach = usual + usual_query
        features = _features(items, centre, reach)
        coefficients = _coefficients(queries, weights, centre, usual, reach)
        shift = features.mean(0)
        root, inverse = _roots(coefficients.T @ coefficients / len(coefficients))
        _, vectors = np.linalg.eigh(root.T @ np.cov(features.T) @ root)
        directions = vectors[:, ::-1][:, :KEPT]
        longest = np.linalg.norm((features - shift) @ root @ directions, axis=1).max()
        length = np.array([1.2 * longest + 1e-9])
        return cls(np.array(weights), centre, usual, reach, shift, root @ directions, inverse @ directions, length)

    @property
    def width(self) -> int:  # type: ignore[override]
        """The directions and one more number, filled up."""
        return _aligned(self.of_items.shape[1] + 1)

    def items(self, items: Embedding) -> Float32[np.ndarray, "n l"]:
        """The features in the directions that are kept, and what they lack in length."""
        assert isinstance(items, Gaussian)
        projected = (_features(items, self.centre, self.reach) - self.shift) @ self.of_items
        lacking = np.maximum(self.length**2 - np.square(projected).sum(1), 0.0)
        return _filled(np.concatenate((projected, np.sqrt(lacking)[:, None]), 1), self.width)

    def queries(self, queries: Embedding) -> Float32[np.ndarray, "q l"]:
        """The weights in these directions, so long that of ‖q − x‖² little but −2⟨q, x⟩ counts."""
        assert isinstance(queries, Gaussian)
        projected = _coefficients(queries, self.weights, self.centre, self.usual, self.reach) @ self.of_queries
        length = np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-30)
        return _filled(projected * (FAR * self.length / length), self.width)

    def to_bytes(self) -> bytes:
        """All it is made of."""
        arrays = {f.name: np.ascontiguousarray(getattr(self, f.name)) for f in fields(self)}
        return safetensors.numpy.save(arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> "DensityLift":
        """What `to_bytes` wrote."""
        try:
            arrays = safetensors.numpy.load(data)
            return cls(**{f.name: arrays[f.name] for f in fields(cls)})
        except (SafetensorError, KeyError) as error:
            raise FormatError(f"the index's lift is damaged ({error}). Tune it again.") from error


@dataclass(frozen=True)
class DensityAnn(Ann):
    """The lift of a score with these (α, β, γ), to be fitted."""

    weights: tuple[float, float, float]
    width: int | None = None

    def lift(self, stored: bytes | None = None) -> DensityLift | None:
        """The stored one."""
        return None if stored is None else DensityLift.from_bytes(stored)

    def fit(self, items: Gaussian, queries: Gaussian) -> DensityLift:
        """Keep the directions that matter to these queries and items."""
        return DensityLift.fit(self.weights, items, queries)


def _features(items: Gaussian, centre: PerDimension, reach: PerDimension) -> Float64[np.ndarray, "n c"]:
    """e^(−v/z), μ e^(−v/z), μ² e^(−v/z) and Σ log σ of each item."""
    mean = items.mean.double().numpy() - centre
    fade = np.exp(-items.variance.double().numpy() / reach)
    volume = items.log_volume().numpy()[:, None]
    return np.concatenate((fade, mean * fade, mean * mean * fade, volume), 1)


def _coefficients(
    queries: Gaussian, weights: Iterable[float], centre: PerDimension, usual: PerDimension, reach: PerDimension
) -> Float64[np.ndarray, "q c"]:
    """The coefficients of −α M − β L + γ Σ log σ₂ in the features, for each query."""
    alpha, beta, gamma = weights
    mean = queries.mean.double().numpy() - centre
    slope = np.exp(usual / reach) / (queries.variance.double().numpy() + usual)
    steep = alpha * slope
    parts = (beta * reach * slope - steep * mean * mean, 2 * steep * mean, -steep)
    return np.concatenate((*parts, np.full((len(mean), 1), gamma)), 1)


def _roots(moments: Float64[np.ndarray, "c c"]) -> tuple[Float64[np.ndarray, "c c"], Float64[np.ndarray, "c c"]]:
    """(G, G^−T) with G Gᵀ = Q and a ridge relative to each column's own size."""
    size = np.sqrt(np.maximum(np.diag(moments), 1e-30))
    values, vectors = np.linalg.eigh(moments / np.outer(size, size) + RIDGE * np.eye(len(size)))
    bent = np.sqrt(np.maximum(values, RIDGE / 2))
    root = (size[:, None] * vectors) * bent @ vectors.T
    return root, (vectors / size[:, None]) / bent @ vectors.T


def _filled(values: Float[np.ndarray, "n c"], width: int) -> Float32[np.ndarray, "n l"]:
    """Zeros up to a width."""
    vectors = np.zeros((len(values), width), np.float32)
    vectors[:, : values.shape[1]] = values
    return vectors


def _aligned(width: int) -> int:
    """The next multiple of `ALIGNED`."""
    return -(-width // ALIGNED) * ALIGNED
