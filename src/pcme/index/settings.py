"""What an index was made for: its model, its score, the shape of its embeddings. Never changes.

It lies in the table's own schema, so that it comes and goes with the rows, on any storage.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import ConfigDict, TypeAdapter, ValidationError
from torch import Tensor

from pcme import scores
from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import ConfigError, FormatError, ShapeError
from pcme.scores.base import Score
from pcme.scores.densities import DensityScore

__all__ = ["FORMAT_VERSION", "ModelId", "ScoreId", "Settings", "Spread"]

FORMAT_VERSION = 1

POINT = -40.0
"""log σ of a point among Gaussians: σ = 4e-18, whose square single precision still holds."""

_DIVERGENCES = ("kl", "reverse_kl", "jeffreys")

Spread = Literal["diagonal", "isotropic", "none"]
"""How many σ an item has: one a dimension, one in all, or none (a point)."""


@dataclass(frozen=True)
class ModelId:
    """A model: where it lay when the index was made, and how to know it again."""

    folder: str | None
    digest: str
    recipe: str
    method: str

    def __str__(self) -> str:
        place = self.folder or "a model that was not in a folder"
        return f"{place} (recipe {self.recipe}, method {self.method}, digest {self.digest[:12]})"


@dataclass(frozen=True)
class ScoreId:
    """A score by name, with its parameters.

    >>> ScoreId.of(scores.create("csd")).create()
    ExpectedDistance()
    """

    kind: str
    params: dict[str, float | int | str]

    @classmethod
    def of(cls, score: Score) -> "ScoreId":
        """That of a score."""
        kind = next(n for n in scores.names() if scores.registry.get(n) is type(score))
        fields = dataclasses.fields(score)  # type: ignore[arg-type]  # all scores are dataclasses
        return cls(kind, {field.name: getattr(score, field.name) for field in fields})

    def create(self) -> Score:
        """The score."""
        return scores.create(self.kind, **self.params)


@dataclass(frozen=True)
class Settings:
    """Model, score and shape; `model` is None for an index of vectors brought along."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    dim: int
    spread: Spread
    score: ScoreId
    model: ModelId | None = None
    format_version: int = FORMAT_VERSION

    def __post_init__(self) -> None:
        if self.dim < 1:
            raise ConfigError(f"an index needs a dimension of 1 or more - got {self.dim}")
        sampled = self.score.kind in ("average_l2", "nearest")
        if sampled or (self.spread != "none" and self.score.params.get("method") == "sampled"):
            raise ConfigError(
                f'an index cannot rank by "{self.score.kind}" on samples, which depend on where an '
                'item stands - use a closed form, such as "match_prob", "csd" or "overlap"'
            )
        if self.spread == "none" and not self.takes_points:
            raise ConfigError(
                f'"{self.score.kind}" compares spreads, and points have none - use "mean" for '
                "points, or give the items a log_sigma"
            )

    @property
    def takes_points(self) -> bool:
        """Whether the score compares points: by their distance, or by a probability from it."""
        return self.score.kind == "mean" or self.score.params.get("method") == "sampled"

    def fitted(self, embedding: Embedding, what: str) -> Embedding:
        """These embeddings as the index holds them; an error when they cannot be in it.

        In single precision. Among points a Gaussian counts by its mean; among Gaussians a point is
        one whose σ is nothing beside any distance, unless the score divides by σ.
        """
        embedding.require_finite(what)
        if embedding.dim != self.dim:
            raise ShapeError(
                f"{what} has dimension {embedding.dim}, the index has {self.dim} - encode it with "
                f"the index's own model: {self.model or 'unknown'}"
            )
        single = embedding.detach().to(device="cpu", dtype=torch.float32)
        if self.spread == "none":
            mean = _only_point(single, what) if isinstance(single, Points) else single.mean
            return Points(mean[:, None])
        return self._gaussian(single, what)

    def _gaussian(self, items: Embedding, what: str) -> Gaussian:
        if isinstance(items, Points):
            if self.divides_by_spread:
                raise ShapeError(
                    f'{what} is a point, and "{self.score.kind}" divides by the spread - give it a '
                    'log_sigma, or rank points by "mean"'
                )
            items = Gaussian(_only_point(items, what), torch.full((len(items), 1), POINT))
        wide = self.dim if self.spread == "diagonal" else 1
        if items.log_sigma.shape[1] not in (1, wide):
            raise ShapeError(f"{what} has {self.dim} σ an item, the index has one for each")
        return Gaussian(items.mean, items.log_sigma.expand(-1, wide))

    @property
    def divides_by_spread(self) -> bool:
        """Whether a score of densities ranks: σ → 0 is then infinitely sure."""
        return isinstance(self.score.create(), DensityScore) or self.score.kind in _DIVERGENCES

    def to_json(self) -> str:
        """As JSON, for the table's schema."""
        return _ADAPTER.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes, where: str) -> "Settings":
        """What `to_json` wrote; a FormatError for anything else."""
        try:
            found = _ADAPTER.validate_json(text)
        except (ValidationError, ConfigError) as error:
            raise FormatError(f"{where}: its settings cannot be read - {error}") from error
        if found.format_version != FORMAT_VERSION:
            raise FormatError(
                f"{where} has format {found.format_version}, this version reads {FORMAT_VERSION} - "
                "make the index anew, or use the version of pcme that made it"
            )
        return found


def _only_point(items: Points, what: str) -> Float[Tensor, "n d"]:
    if items.x.shape[1] != 1:
        raise ShapeError(f"{what} is {items.x.shape[1]} points an item - an index holds one")
    return items.x[:, 0]


_ADAPTER = TypeAdapter(Settings)
