"""Method: what is trained and how it is judged; Objective: the loss of a batch, term by term.

A method is one file of this package: a frozen dataclass whose fields are its parameters, under
`@registry.register(name)`. The rest of the program (data, backbones, schedule) does not know which
method it runs.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor, nn

from pcme.core.registry import Registry
from pcme.embedding import Embedding
from pcme.errors import ConfigError
from pcme.nn.heads import HeadOptions
from pcme.scores.base import Score

__all__ = ["Method", "Objective", "Terms", "registry", "require_known", "require_not_negative"]


@dataclass(frozen=True)
class Terms:
    """The parts of a loss and their weights, under the names that logs and tests use.

    >>> Terms({"match": torch.tensor(2.0), "kl": torch.tensor(10.0)}, {"kl": 0.1}).total
    tensor(3.)
    """

    values: Mapping[str, Float[Tensor, ""]]
    weights: Mapping[str, float]

    @property
    def total(self) -> Float[Tensor, ""]:
        """The weighted sum; a term without a weight counts once."""
        parts = [self.weights.get(name, 1.0) * value for name, value in self.values.items()]
        return torch.stack(parts).sum()


class Objective(nn.Module, ABC):
    """The loss of a batch; it may have parameters of its own, such as Eq. (3)'s a and b."""

    @abstractmethod
    def forward(
        self,
        images: Embedding,
        captions: Embedding,
        matches: Bool[Tensor, "b b"],
        generator: torch.Generator,
    ) -> Terms:
        """The terms; `matches[i, j]` says whether caption j is true of image i."""

    @abstractmethod
    def score(self) -> Score:
        """The score this objective trains, with what it has learned so far."""

    def expect(self, steps: int) -> None:
        """Said before a run of this many steps, for what depends on how far it has come."""

    def report(self) -> dict[str, float]:
        """What is worth watching while it trains."""
        return {}


@dataclass(frozen=True)
class Method(ABC):
    """A method as a user names it."""

    @abstractmethod
    def heads(self, dim: int) -> HeadOptions:
        """What the two towers' heads look like."""

    @abstractmethod
    def objective(self) -> Objective:
        """The loss."""

    def mixed(
        self,
        images: Shaped[Tensor, "b ..."],
        matches: Bool[Tensor, "b b"],
        generator: np.random.Generator,
    ) -> tuple[Shaped[Tensor, "b ..."], Bool[Tensor, "b b"] | Float[Tensor, "b b"]]:
        """What a training step embeds, and the truth about it: here what it was given.

        A method that mixes images of a batch returns its own, with soft matches from 0 to 1, which
        its objective then takes. `images` are 8-bit pixels [b,3,h,w] or features [b,s,d].
        """
        return images, matches


registry: Registry[Method] = Registry("method", "pcme.methods")


def require_known(what: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse a value that is not among the known ones."""
    if value not in known:
        raise ConfigError(f'unknown {what} "{value}" - known are {", ".join(known)}')


def require_not_negative(**weights: float) -> None:
    """Refuse a term that would be rewarded for growing."""
    for name, weight in weights.items():
        if weight < 0:
            raise ConfigError(f"{name} must be at least 0 - got {weight}")
