"""Lifts: vectors by which an engine that knows no Gaussians orders items nearly as a score does.

An engine only proposes; the score itself decides (`pcme.index.values`). Two lifts serve all scores
that have one:

* *distance*, for every score that falls with E‖z₁−z₂‖²: [μ; √Σσ²] for items, [μ; 0] for queries.
  Its L2 is the expected squared distance less the query's own spread: exact for `csd`, `csd_prob`
  and (without the last number) `mean`; the order `match_prob` has nearly.
* *density*, for overlap and its kin: M + L of `pcme.elk` has no finite inner product, but
  1/(v₁+v₂) ≈ e^((v̄−v₂)/z) / (v₁+v̄) is right where the item's variance v₂ is the usual one, v̄, for
  any query, and separates. With d log(v₁+v₂) from the same, the score is an inner product of 3D
  numbers. Plain distances are useless here (docs/SEARCH.md has the figures).
"""

import base64
import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Float32, Float64

from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import FormatError
from pcme.index.settings import Settings
from pcme.scores.densities import DensityScore

__all__ = ["DensityLift", "DistanceLift", "Lift", "lift_of", "width_of"]

ALIGNED = 16
"""Vectors are filled up to a multiple of this: product quantisation cuts them into equal parts."""

DISTANCES = ("mean", "csd", "csd_prob", "match_prob")
FITTED_ON = 4096
"""Items at the most whose averages a density lift is made of."""


class Lift(ABC):
    """How items and queries become vectors for an engine."""

    metric: ClassVar[Literal["l2", "dot"]]
    width: int
    piece: ClassVar[int]
    """How many numbers a quantiser takes for one."""

    @abstractmethod
    def items(self, items: Embedding) -> Float32[np.ndarray, "n l"]:
        """The vectors to store."""

    @abstractmethod
    def queries(self, queries: Embedding) -> Float32[np.ndarray, "q l"]:
        """The vectors to search by."""

    @abstractmethod
    def to_json(self) -> str:
        """All it depends on."""


def width_of(settings: Settings) -> int | None:
    """How many numbers the engine's vector of an item has; None for a score without a lift."""
    if settings.score.kind in DISTANCES:
        return _aligned(settings.dim + 1)
    if isinstance(settings.score.create(), DensityScore):
        return _aligned(3 * settings.dim + 1)
    return None


def lift_of(settings: Settings, stored: str | None, sample: Embedding | None) -> Lift | None:
    """The lift of an index: as stored, or made from some items; None where there is none."""
    width = width_of(settings)
    if width is None:
        return None
    if settings.score.kind in DISTANCES:
        return DistanceLift(width, by_spread=settings.score.kind != "mean")
    if stored is not None:
        return DensityLift.from_json(stored, width)
    if sample is None:
        return None
    assert isinstance(sample, Gaussian)
    score = settings.score.create()
    assert isinstance(score, DensityScore)
    return DensityLift.fitted(sample, score.weights(settings.dim), width)


@dataclass(frozen=True)
class DistanceLift(Lift):
    """L2 between [μ; √Σσ²] and [μ; 0], filled up with zeros."""

    width: int
    by_spread: bool = True
    metric: ClassVar[Literal["l2", "dot"]] = "l2"
    piece: ClassVar[int] = 16

    def items(self, items: Embedding) -> Float32[np.ndarray, "n l"]:
        """The mean, and for a Gaussian how wide it is."""
        found = self.queries(items)
        if isinstance(items, Gaussian) and self.by_spread:
            total = items.variance.double().sum(-1)
            found[:, items.dim] = total.sqrt().numpy()
        return found

    def queries(self, queries: Embedding) -> Float32[np.ndarray, "q l"]:
        """The mean alone: a query's own width is the same for every item."""
        mean = queries.x[:, 0] if isinstance(queries, Points) else queries.mean
        found = np.zeros((len(queries), self.width), np.float32)
        found[:, : queries.dim] = mean.numpy()
        return found

    def to_json(self) -> str:
        """It depends on nothing that is not in the settings."""
        return "{}"


@dataclass(frozen=True, eq=False)
class DensityLift(Lift):
    """An inner product of 3D numbers and one for the volume; see the module.

    `centre` moves the means, where products cancel least; `shift` and `stretch` make the columns
    comparable, so that a quantiser spends its bits where a query's weights are large.
    """

    weights: tuple[float, float, float]
    width: int
    centre: Float64[np.ndarray, " d"]
    usual: Float64[np.ndarray, " d"]
    """v̄, the items' mean variance."""
    shift: Float64[np.ndarray, " c"]
    stretch: Float64[np.ndarray, " c"]
    metric: ClassVar[Literal["l2", "dot"]] = "dot"
    piece: ClassVar[int] = 4  # the differences that decide are small beside the numbers

    @classmethod
    def fitted(
        cls, sample: Gaussian, weights: tuple[float, float, float], width: int
    ) -> "DensityLift":
        """From some items, which also stand in for queries."""
        some = sample[:FITTED_ON]
        centre, usual = (t.double().mean(0).numpy() for t in (some.mean, some.variance))
        plain = np.zeros(3 * some.dim + 1), np.ones(3 * some.dim + 1)
        first = cls(weights, width, centre, usual, *plain)
        typical = np.sqrt(np.square(first._weighted(some)).mean(0))
        return cls(
            weights, width, centre, usual, first._features(some).mean(0), np.maximum(typical, 1e-9)
        )

    def items(self, items: Embedding) -> Float32[np.ndarray, "n l"]:
        """What a query's weights multiply."""
        return self._filled((self._features(items) - self.shift) * self.stretch)

    def queries(self, queries: Embedding) -> Float32[np.ndarray, "q l"]:
        """The weights of a query."""
        return self._filled(self._weighted(queries) / self.stretch)

    def _features(self, items: Embedding) -> Float64[np.ndarray, "n c"]:
        assert isinstance(items, Gaussian)
        mean, variance = self._numbers(items)
        fade = np.exp(-variance / self._reach)
        volume = items.log_sigma.double().mean(-1, keepdim=True).numpy() * items.dim
        return np.concatenate((fade, mean * fade, mean * mean * fade, volume), 1)

    def _weighted(self, queries: Embedding) -> Float64[np.ndarray, "q c"]:
        """Coefficients of −α M − β L + γ Σ log σ₂ in the features."""
        assert isinstance(queries, Gaussian)
        alpha, beta, gamma = self.weights
        mean, variance = self._numbers(queries)
        slope = np.exp(self.usual / self._reach) / (variance + self.usual)
        steep = alpha * slope
        parts = (beta * self._reach * slope - steep * mean * mean, 2 * steep * mean, -steep)
        return np.concatenate((*parts, np.full((len(mean), 1), gamma)), 1)

    @property
    def _reach(self) -> Float64[np.ndarray, " d"]:
        """z = 2 v̄: where query and item are as wide as usual the slopes agree too."""
        return 2 * self.usual

    def _numbers(
        self, items: Gaussian
    ) -> tuple[Float64[np.ndarray, "n d"], Float64[np.ndarray, "n d"]]:
        return items.mean.double().numpy() - self.centre, items.variance.double().numpy()

    def _filled(self, values: Float[np.ndarray, "n c"]) -> Float32[np.ndarray, "n l"]:
        found = np.zeros((len(values), self.width), np.float32)
        found[:, : values.shape[1]] = values
        return found

    def to_json(self) -> str:
        """The averages it was made of."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        packed = {
            n: base64.b64encode(a.astype("<f8").tobytes()).decode() for n, a in arrays.items()
        }
        return json.dumps({"weights": self.weights, **packed})

    @classmethod
    def from_json(cls, text: str, width: int) -> "DensityLift":
        """What `to_json` wrote."""
        try:
            record = json.loads(text)
            arrays = [np.frombuffer(base64.b64decode(record[name]), "<f8") for name in _ARRAYS]
            alpha, beta, gamma = record["weights"]
            return cls((alpha, beta, gamma), width, *arrays)
        except (ValueError, TypeError, KeyError) as error:
            raise FormatError(f"the index's lift is damaged - {error}") from error


_ARRAYS = ("centre", "usual", "shift", "stretch")


def _aligned(width: int) -> int:
    """The next multiple of `ALIGNED`."""
    return -(-width // ALIGNED) * ALIGNED
