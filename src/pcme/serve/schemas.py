"""Schemas: what requests hold, checked before anything is done with it."""

import math
from typing import Annotated, Any, TypeAlias

import torch
from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from pcme.embedding import Embedding, Gaussian, Points
from pcme.index.rows import Kind, Metadata
from pcme.index.writer import OnConflict
from pcme.serve.limits import MAX_DIM, MAX_ITEMS, MAX_K, MAX_PARTS, MAX_TEXT, MAX_TEXTS, MAX_WHERE

LARGEST = 1e6
"""The largest number of a vector."""
LOG_SIGMA = (-40.0, 20.0)
"""The least and the largest log σ."""
WHOLE = 2**63 - 1
"""The largest number of metadata, whole ones above all."""

PLAIN = r"^[^\x00-\x1f\x7f]+$"
"""Names have no control characters."""


def _written(text: str) -> str:
    """Refuse a text of spaces."""
    if not text.strip():
        raise ValueError("must not be empty")
    return text


Text = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern=PLAIN), AfterValidator(_written)]
Column = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=PLAIN)]
Where = Annotated[str, StringConstraints(min_length=1, max_length=MAX_WHERE)]
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
LogSigma = Annotated[float, Field(ge=LOG_SIGMA[0], le=LOG_SIGMA[1])]
Whole = Annotated[int, Field(ge=-WHOLE, le=WHOLE)]
Real = Annotated[float, Field(gt=-WHOLE, lt=WHOLE)]
Scalar = bool | Whole | Real | Annotated[str, StringConstraints(max_length=10_000)]
Value = Scalar | None | Annotated[list[Scalar], Field(min_length=1, max_length=1_000)]
Facts: TypeAlias = Annotated[dict[Column, Value], Field(max_length=64)]


class Strict(BaseModel):
    """No unknown keys, no numbers that JSON has not."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class Vector(Strict):
    """An embedding: μ, and log σ of each dimension or of all; without it a point. A list alone is μ."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"mean": [0.6, 0.8], "log_sigma": [-2.0, -1.5]}]})

    mean: Annotated[list[Number], Field(min_length=1, max_length=MAX_DIM)]
    log_sigma: Annotated[list[LogSigma], Field(min_length=1, max_length=MAX_DIM)] | LogSigma | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_list(cls, value: object) -> object:
        return {"mean": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _fitting(self) -> "Vector":
        if isinstance(self.log_sigma, list) and len(self.log_sigma) not in (1, len(self.mean)):
            raise ValueError("log_sigma must have as many numbers as mean, or one")
        return self

    def embedding(self) -> Embedding:
        """One row."""
        mean = torch.tensor([self.mean], dtype=torch.float32)
        if self.log_sigma is None:
            return Points(mean[:, None])
        widths = self.log_sigma if isinstance(self.log_sigma, list) else [self.log_sigma]
        return Gaussian(mean, torch.tensor([widths], dtype=torch.float32))


class Part(Strict):
    """One part of a query: a text, the id of an item of the index, or a vector."""

    text: Text | None = None
    id: Id | None = None
    vector: Vector | None = None

    @model_validator(mode="after")
    def _one(self) -> "Part":
        if sum(part is not None for part in (self.text, self.id, self.vector)) != 1:
            raise ValueError("must have one of text, id and vector")
        return self


Parts = Annotated[list[Text | Part], Field(max_length=MAX_PARTS)]


class SearchRequest(Strict):
    """A query: all of `q`, `id`, `vector`, an image and `all_of`; or any of `any_of`; and none of `but_not`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"q": "a small red bird", "k": 5},
                {"q": "a red bird", "all_of": ["near water"], "but_not": ["a long tail"], "where": "year > 2000"},
                {"id": "photos/00.png", "kind": "image", "k": 3},
            ]
        }
    )

    q: Annotated[Text | None, Field(validation_alias=AliasChoices("q", "query"), description="a text")] = None
    id: Annotated[Id | None, Field(description="an item of the index: what is like it?")] = None
    vector: Vector | None = None
    all_of: Parts = []
    any_of: Parts = []
    but_not: Parts = []
    k: Annotated[int, Field(ge=1, le=MAX_K)] = 10
    where: Annotated[Where | None, Field(description="a filter, as of `pcme search --where`")] = None
    kind: Annotated[Kind | None, Field(description="only items of this kind")] = None
    exact: Annotated[bool | None, Field(description="exact search, however large the index is")] = None
    min_coverage: Annotated[float | None, Field(ge=0, le=1)] = None

    @model_validator(mode="after")
    def _few(self) -> "SearchRequest":
        single = sum(part is not None for part in (self.q, self.id, self.vector))
        if single + len(self.all_of) + len(self.any_of) + len(self.but_not) > MAX_PARTS:
            raise ValueError(f"must have at most {MAX_PARTS} parts")
        return self


class EmbedRequest(Strict):
    """Texts to embed: `q`, then `texts`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"texts": ["a small red bird", "a nest"]}]})

    q: Text | None = None
    texts: Annotated[list[Text], Field(max_length=MAX_TEXTS)] = []

    @property
    def all(self) -> list[str]:
        """All of them."""
        return [*([] if self.q is None else [self.q]), *self.texts]

    @model_validator(mode="after")
    def _some(self) -> "EmbedRequest":
        if not self.all:
            raise ValueError("must have q or texts")
        return self


class NewItem(Strict):
    """A caption (a text alone), or a vector with or without its text."""

    id: Id
    kind: Annotated[Kind | None, Field(description="of a vector (image); a text alone is a caption")] = None
    text: Annotated[str, StringConstraints(min_length=1, max_length=10_000)] | None = None
    vector: Vector | None = None
    metadata: Facts = {}


class AddRequest(Strict):
    """Captions, or vectors of one kind of items."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"items": [{"id": "c1", "text": "a red bird", "metadata": {"year": 2001}}]},
                {"items": [{"id": "v1", "kind": "image", "vector": {"mean": [0.6, 0.8], "log_sigma": -2.0}}]},
            ]
        }
    )

    items: Annotated[list[NewItem], Field(min_length=1, max_length=MAX_ITEMS)]
    on_conflict: OnConflict = "skip"

    @model_validator(mode="after")
    def _alike(self) -> "AddRequest":
        vectors = [item.vector for item in self.items if item.vector is not None]
        if len(vectors) not in (0, len(self.items)):
            raise ValueError("must have a vector in every item or in none")
        if len({vector.log_sigma is None for vector in vectors}) > 1:
            raise ValueError("must have a log_sigma in every vector or in none")
        if vectors and len({item.kind or "image" for item in self.items}) > 1:
            raise ValueError("must have vectors of one kind")
        if not vectors and any(item.text is None or item.kind == "image" for item in self.items):
            raise ValueError("items without a vector are captions, and need a text. Send images as multipart/form-data")
        return self


class NewImage(Strict):
    """What is known of an image that is added."""

    id: Id | None = None
    metadata: Facts = {}


class ImagesRequest(Strict):
    """The fields beside the images."""

    items: Annotated[list[NewImage], Field(max_length=MAX_ITEMS)] = []
    on_conflict: OnConflict = "skip"


def metadata_of(items: list[NewItem] | list[NewImage]) -> Metadata:
    """The metadata of items; None where there are none."""
    return [item.metadata for item in items] if any(item.metadata for item in items) else None


def finite(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """The value with null for numbers that JSON has not.

    >>> finite({"a": [1.5, float("nan")], "b": (True, None)})
    {'a': [1.5, None], 'b': [True, None]}
    """
    if isinstance(value, dict):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
