"""Settings: the model, the score and the shape of an index's embeddings, stored in the table's schema for good."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from jaxtyping import Float
from pydantic import ConfigDict, PlainSerializer, PlainValidator, TypeAdapter, ValidationError
from torch import Tensor

from pcme import scores
from pcme.core.checks import require
from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import ConfigError, FormatError, ShapeError
from pcme.scores.base import Score

FORMAT_VERSION = 1

POINT = -40.0
"""log σ of a point among Gaussians: σ = 4e-18, whose square single precision still holds."""

Spread = Literal["diagonal", "isotropic", "none"]
"""How many σ an item has: one per dimension, one in all, or none (a point)."""


@dataclass(frozen=True)
class ModelId:
    """A model: its folder when the index was created, and the digest that identifies it."""

    folder: str | None
    digest: str
    recipe: str
    method: str

    def __str__(self) -> str:
        folder = self.folder or "a model that was not in a folder"
        return f"{folder} (recipe {self.recipe}, method {self.method}, digest {self.digest[:12]})"


def _read_score(stored: object) -> Score:
    """A score, as it is or as it is stored."""
    if isinstance(stored, Score):
        return stored
    try:
        assert isinstance(stored, dict)
        return scores.registry.from_record({"kind": stored["kind"], **stored["params"]})
    except (AssertionError, KeyError, TypeError) as error:
        raise ValueError("not a stored score") from error
    except ConfigError as error:
        raise ConfigError(f"{error} Is a plugin missing? Name it with --plugin.") from error


def _stored_score(score: Score) -> dict[str, Any]:
    return {"kind": scores.registry.name_of(type(score)), "params": score.parameters}


@dataclass(frozen=True)
class Settings:
    """Model, score and shape; `model` is None for an index of your own vectors."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    dim: int
    spread: Spread
    score: Annotated[Score, PlainValidator(_read_score), PlainSerializer(_stored_score)]
    model: ModelId | None = None
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        name = scores.registry.name_of(type(self.score))  # an error for one that is not registered
        require("dim", self.dim >= 1, "at least 1", self.dim)
        if self.spread != "none" and self.score.positional:
            raise ConfigError(
                f'score "{name}": ranks by samples, which belong to a position. Use a closed form, as "csd".'
            )
        if self.spread == "none" and self.score.max_points == 0:
            raise ConfigError(f'score "{name}": compares spreads, points have none. Use "mean", or give a log_sigma.')

    @property
    def sigmas(self) -> int:
        """The number of σ per item."""
        return {"diagonal": self.dim, "isotropic": 1, "none": 0}[self.spread]

    def fitted(self, embedding: Embedding, name: str) -> Embedding:
        """The embeddings as the index holds them, in single precision; an error when they cannot be in it.

        Among points a Gaussian counts by its mean. Among Gaussians a point has a σ that is nothing beside any distance,
        unless the score divides by σ.
        """
        embedding.require_finite(name)
        if embedding.dim != self.dim:
            raise ShapeError(
                f"{name}: the index has dimension {self.dim}, got {embedding.dim}. "
                f"Encode it with the index's model: {self.model or 'unknown'}."
            )
        items = embedding.detach().to(device="cpu", dtype=torch.float32)
        if self.spread == "none":
            return Points(_only_point(items, name)[:, None])
        if isinstance(items, Points):
            if self.score.divides_by_sigma:
                raise ShapeError(f'{name}: "{self.score.name}" divides by σ, got a point. Give it a log_sigma.')
            items = Gaussian(_only_point(items, name), torch.full((len(items), 1), POINT))
        if items.log_sigma.shape[1] not in (1, self.sigmas):
            raise ShapeError(f"{name}: has one σ per dimension, the index stores one σ per item.")
        return Gaussian(items.mean, items.log_sigma.expand(-1, self.sigmas))

    def to_json(self) -> str:
        """As JSON, for the table's schema."""
        return _ADAPTER.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> "Settings":
        """Read what `to_json` wrote; a FormatError for anything else."""
        try:
            settings = _ADAPTER.validate_json(text)
        except (ValidationError, ConfigError) as error:
            raise FormatError(f"{where}: its settings cannot be read ({error}).") from error
        if (version := settings.format_version) != FORMAT_VERSION:
            raise FormatError(f"{where}: must have format {FORMAT_VERSION}, got {version}. Rebuild the index.")
        return settings


def _only_point(items: Embedding, name: str) -> Float[Tensor, "n d"]:
    points = items.points()
    if points.shape[1] != 1:
        raise ShapeError(f"{name}: an index holds one point per item, got {points.shape[1]}.")
    return points[:, 0]


_ADAPTER = TypeAdapter(Settings)
