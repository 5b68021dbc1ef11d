"""Answers: the JSON of the API, and its description with examples in the OpenAPI document."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import models_json_schema
from starlette.responses import Response

from pcme.index.health import Description
from pcme.serve.problems import MEDIA_TYPE
from pcme.serve.schemas import finite

REFERENCE = "#/components/schemas/{model}"
FILE = {"type": "string", "contentMediaType": "application/octet-stream", "format": "binary"}
Json = dict[str, Any]


def answer(record: object, status: int = 200) -> Response:
    """A record as JSON; numbers that JSON has not are null."""
    return Response(json.dumps(finite(record), allow_nan=False), status, media_type="application/json")


class ItemAnswer(BaseModel):
    """An item of the index."""

    id: str
    kind: str
    path: str | None
    text: str | None
    uncertainty: float | None
    metadata: Json


class HitAnswer(ItemAnswer):
    """An item that was found."""

    rank: int
    match_probability: float | None


class QueryAnswer(BaseModel):
    """What is known of the query."""

    uncertainty: float | None
    percentile: float | None
    expected_matches: float | None
    answerable: bool | None
    note: str | None


class SearchAnswer(BaseModel):
    """What `pcme search --json` prints."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "query": {
                        "uncertainty": 0.11,
                        "percentile": 34.0,
                        "expected_matches": 2.4,
                        "answerable": True,
                        "note": None,
                    },
                    "hits": [
                        {
                            "rank": 1,
                            "id": "photos/00.png",
                            "kind": "image",
                            "path": "/data/photos/00.png",
                            "text": None,
                            "match_probability": 0.93,
                            "uncertainty": 0.07,
                            "metadata": {"year": 1999},
                        }
                    ],
                    "searched": 12,
                    "calibrated": True,
                    "exact": True,
                }
            ]
        }
    )

    query: QueryAnswer
    hits: list[HitAnswer]
    searched: int
    calibrated: bool
    exact: bool


class EmbeddingAnswer(BaseModel):
    """μ and log σ; a point has no log σ."""

    mean: list[float]
    log_sigma: list[float] | None
    uncertainty: float | None


class EmbedAnswer(BaseModel):
    """One embedding per text or image, in their order."""

    embeddings: list[EmbeddingAnswer]


class AddAnswer(BaseModel):
    """What `pcme index add --json` prints; it is on the disk."""

    added: int
    replaced: int
    present: int
    rows: int
    problems: Json


class DeleteAnswer(BaseModel):
    """What `pcme index delete --json` prints."""

    deleted: int
    rows: int


@dataclass(frozen=True)
class DescribeAnswer(Description):
    """What `pcme index describe --json` prints, and what this server does."""

    read_only: bool
    images: bool


class HealthAnswer(BaseModel):
    """The state of the server."""

    status: str
    rows: int | None = None


class ProblemAnswer(BaseModel):
    """An error, as RFC 9457 has it."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Bad Request",
                    "status": 400,
                    "detail": "filter: cannot be used, No field named colour, got 'colour = 1'. Use the columns id, …",
                    "request_id": "5f0c…",
                }
            ]
        },
    )

    type: str
    title: str
    status: int
    detail: str
    request_id: str | None = None


PROBLEM = {
    "description": "An error",
    "content": {MEDIA_TYPE: {"schema": {"$ref": REFERENCE.format(model="ProblemAnswer")}}},
}


def responses(model: type[BaseModel | Description], status: int = 200) -> dict[int | str, Json]:
    """The answers of an operation: the one that is wanted, or a problem."""
    return {status: {"model": model, "description": "Done"}, "default": PROBLEM}


def media(*types: str) -> dict[int | str, Json]:
    """The answers of an operation that gives no JSON."""
    return {200: {"description": "Done", "content": {each: {} for each in types}}, "default": PROBLEM}


def body(model: type[BaseModel], form: Mapping[str, object] | None = None, **fields: object) -> Json:
    """The request body of an operation: JSON, or a form with images and these fields."""
    content: Json = {"application/json": {"schema": {"$ref": REFERENCE.format(model=model.__name__)}}}
    if form is not None:
        schema = {"type": "object", "required": ["image"], "properties": {"image": form, **fields}}
        content["multipart/form-data"] = {"schema": {**schema, "additionalProperties": False}}
    return {"requestBody": {"required": True, "content": content}}


def with_schemas(document: Json, *models: type[BaseModel]) -> Json:
    """The OpenAPI document with the schemas of these models."""
    _, definitions = models_json_schema([(model, "validation") for model in models], ref_template=REFERENCE)
    document.setdefault("components", {}).setdefault("schemas", {}).update(definitions["$defs"])
    return document
