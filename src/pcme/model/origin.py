"""The origin of an imported model's weights; it goes with the model into every folder."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from pcme.core import files
from pcme.errors import FormatError
from pcme.model.folder import read_json

FILE = "origin.json"
DEEPEST = 4
_NAME = re.compile(r"^[A-Za-z0-9_.@-]{1,80}$")


class Origin(BaseModel):
    """The authors' file: its name and digest, the epoch and the scores that it states."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    file: str
    sha256: str
    dataset: str
    epoch: int | None = None
    scores: dict[Annotated[str, Field(pattern=_NAME.pattern)], FiniteFloat] = {}


def parse_origin(record: object, path: Path) -> Origin:
    """The origin in a record of a file."""
    try:
        return Origin.model_validate(record)
    except ValidationError as error:
        fault = error.errors()[0]
        key = fault["loc"][0] if fault["loc"] else "it"
        raise FormatError(
            f"{path}: not the origin of a model, {key}: {fault['msg']}, got {fault['input']!r:.60}. "
            "Restore it from a backup."
        ) from error


def stated(value: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """(dotted name, number) of every finite number in nested dicts whose names are plain.

    >>> dict(stated({"i2t": {"recall_1": 0.5}, "rsum": math.nan}))
    {'i2t.recall_1': 0.5}
    """
    if isinstance(value, Mapping) and depth < DEEPEST:
        for key, inner in value.items():
            yield from stated(inner, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(value, Real) and math.isfinite(value) and _NAME.fullmatch(name):
        yield name, float(value)


def save(origin: Origin | None, folder: Path) -> None:
    """Write it beside a model; without one, remove that of a model that was there before."""
    path = folder / FILE
    if origin is None:
        path.unlink(missing_ok=True)
    else:
        files.write_text(path, json.dumps(origin.model_dump(), indent=2) + "\n")


def load(folder: Path) -> Origin | None:
    """The origin in a model's folder; None for a model that was trained here."""
    path = folder / FILE
    return parse_origin(read_json(path), path) if path.exists() else None
