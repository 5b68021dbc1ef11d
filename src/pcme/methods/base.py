"""Method: what is trained and how it is judged; Objective: the loss of a batch, term by term.

A method is one file of this package: a frozen dataclass whose fields are its parameters, under
`@registry.register(name)`. Data, backbones and schedule do not know which method they run.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from pcme.core.checks import require
from pcme.core.registry import Registry
from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError, ShapeError
from pcme.methods.pairs import Images, PairLoss, Positives, SoftTruth, Truth
from pcme.nn.heads import Covariance, HeadOptions, Pooling
from pcme.scores.base import Score

Scalar = Float[Tensor, ""]
Bounds = Sequence[float] | Literal["none"]


@dataclass(frozen=True)
class Terms:
    """The terms of a loss and their weights, under the names that logs and tests use.

    A term of weight 0 is None: it is not computed, and cannot turn the total into 0 · inf.

    >>> parts = {"match": lambda: torch.tensor(2.0), "kl": lambda: torch.tensor(10.0)}
    >>> Terms.of(parts, kl=0.1).total
    tensor(3.)
    """

    all: Mapping[str, Scalar | None]
    weights: Mapping[str, float]

    @staticmethod
    def of(terms: Mapping[str, Callable[[], Scalar]], **weights: float) -> "Terms":
        """The terms whose weight is not 0, computed; a term without a weight counts once."""
        return Terms({n: term() if weights.get(n, 1) else None for n, term in terms.items()}, weights)

    @property
    def values(self) -> dict[str, Scalar]:
        """The terms that were computed."""
        return {name: value for name, value in self.all.items() if value is not None}

    @property
    def total(self) -> Scalar:
        """The weighted sum."""
        none = next(iter(self.values.values())).new_zeros(())
        # A zero stands for a term left out: sums round by the position of their summands.
        parts = [none if value is None else self.weights.get(name, 1.0) * value for name, value in self.all.items()]
        return torch.stack(parts).sum()


@dataclass(frozen=True)
class Sizes:
    """What of a model's sizes a loss may depend on; `words` are ids, None where captions are not words."""

    dim: int
    words: int | None


@dataclass(frozen=True)
class Mining:
    """Negatives that a loss wants from the whole training set: so many captions per image, false by `positives`."""

    count: int
    positives: Positives


class Objective(nn.Module, ABC):
    """The loss of a batch; it may have parameters of its own, such as Eq. (3)'s a and b."""

    offline: bool = False
    """Whether a batch has three equal parts: pairs, negatives mined for them, and the partners of those negatives."""

    @abstractmethod
    def forward(self, images: Embedding, captions: Embedding, matches: Truth, generator: torch.Generator) -> Terms:
        """The terms; `matches[i, j]` says whether caption j is true of image i."""

    @abstractmethod
    def score(self) -> Score:
        """The score this objective trains, with its learned parameters."""

    def set_total_steps(self, steps: int) -> None:
        """Called before a run of this many steps, for schedules inside the loss."""

    def complete(self, sizes: Sizes, generator: torch.Generator) -> None:
        """Called once by the model that it is part of, for what depends on its sizes; on its own it lacks that."""

    def mining(self, done: float, *, last: bool) -> Mining | None:
        """The negatives it wants for an epoch before which this share of the run is done (`pcme.training.offline`)."""
        return None

    def report(self) -> dict[str, Scalar | float]:
        """The values to log at every step; what lies on the device is not read here."""
        return {}


class SigmoidObjective(Objective, ABC):
    """A loss of p = sigmoid(b − a · distance), or its mean over samples; a and b are learned.

    `score()` is the same p: exp(−pair_nll of a match) = score().probability, up to sampling.
    """

    def __init__(self, scale: float, shift: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(float(scale)))
        self.shift = nn.Parameter(torch.tensor(float(shift)))

    @abstractmethod
    def pair_nll(self, images: Embedding, captions: Embedding, matches: Truth, generator: torch.Generator) -> PairLoss:
        """−log p of a pair that matches, −log(1 − p) of one that does not."""

    def report(self) -> dict[str, Scalar | float]:
        """a and b."""
        return {"scale": self.scale.detach(), "shift": self.shift.detach()}

    def learned(self) -> dict[str, float]:
        """a and b as numbers: the parameters of the score."""
        return {"scale": self.scale.item(), "shift": self.shift.item()}


@dataclass(frozen=True)
class Method(ABC):
    """A method as a user names it; a field `<term>_weight` is the weight of a term of its loss."""

    def __post_init__(self) -> None:
        for term, weight in self.weights.items():
            require(f"{term}_weight", weight >= 0, "at least 0", weight)

    @property
    def weights(self) -> dict[str, float]:
        """The weights of the terms."""
        names = [field.name for field in fields(self) if field.name.endswith("_weight")]
        return {name.removesuffix("_weight"): getattr(self, name) for name in names}

    @property
    def has_sigma(self) -> bool:
        """Whether embeddings are Gaussians; otherwise they are points."""
        return self.heads(2).covariance != "none"

    @abstractmethod
    def heads(self, dim: int) -> HeadOptions:
        """The options of both towers' heads."""

    @abstractmethod
    def objective(self) -> Objective:
        """The loss."""

    def mixed(self, images: Images, matches: Truth, generator: np.random.Generator) -> tuple[Images, SoftTruth]:
        """The images that a training step embeds, and their matches; by default those given.

        A method that mixes images of a batch returns mixed ones, with the soft matches that its objective then takes.
        `images` are 8-bit pixels [b,3,h,w] or features [b,s,d].
        """
        return images, matches


@dataclass(frozen=True)
class GaussianMethod(Method, ABC):
    """A method whose items are Gaussians: the heads of Fig. 3, with the switches of §D.

    log σ starts at `log_sigma` and is softly kept within `log_sigma_bounds`; "none", as in the paper, leaves it free.
    `pooling="gpo"` learns how sites become one vector (`pcme.nn.gpo`).
    """

    covariance: Covariance = "diagonal"
    log_sigma: float = -3.5
    mean_attention: bool = True
    sigma_attention: bool = True
    attention_hidden: int | None = None
    mean_norm: bool = True
    mean_unit: bool = True
    log_sigma_bounds: Bounds = (-8.0, 2.0)
    pooling: Pooling = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "log_sigma_bounds", _known_bounds(self.log_sigma_bounds))

    def heads(self, dim: int) -> HeadOptions:
        """The heads of Fig. 3."""
        switches = {f.name: getattr(self, f.name) for f in fields(GaussianMethod)}
        bounds = switches.pop("log_sigma_bounds")
        return HeadOptions(dim, bounds=None if bounds == "none" else bounds, **switches)

    def _require_sigma(self) -> None:
        require("covariance", self.covariance != "none", "diagonal or isotropic", self.covariance)


@dataclass(frozen=True)
class PointMethod(Method, ABC):
    """A method whose items are unit vectors, by the paper's mean head.

    Without attention and LayerNorm that is a linear map of the pooled features, brought to length one (`MeanHead`).
    `pooling="gpo"` learns how sites become one vector (`pcme.nn.gpo`); with the same two off, that is the head of VSE∞.
    """

    mean_attention: bool = True
    attention_hidden: int | None = None
    mean_norm: bool = True
    pooling: Pooling = "mean"

    def heads(self, dim: int) -> HeadOptions:
        """One unit vector per item."""
        switches = {f.name: getattr(self, f.name) for f in fields(PointMethod)}
        return HeadOptions(dim, covariance="none", **switches)


registry: Registry[Method] = Registry("method", "pcme.methods")


def require_gaussians(
    loss: str, images: Embedding, captions: Embedding, remedy: str = "Use heads with a sigma."
) -> tuple[Gaussian, Gaussian]:
    """Both sides, for a loss that needs σ; an error for points."""
    if isinstance(images, Gaussian) and isinstance(captions, Gaussian):
        return images, captions
    got = f"{type(images).__name__} and {type(captions).__name__}"
    raise ShapeError(f"{loss} needs Gaussians on both sides, got {got}. {remedy}")


def _known_bounds(given: object) -> Bounds:
    """The bounds as a value that compares and hashes, for JSON has lists; an error for anything else."""
    match given:
        case "none":
            return "none"
        case [int() | float() as low, int() | float() as high] if -math.inf < low < high < math.inf:
            return float(low), float(high)
    raise ConfigError(f'log_sigma_bounds: must be two rising numbers, or "none", got {given}. Set it to [-8, 2].')
