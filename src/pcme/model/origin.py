"""Where the weights of an imported model come from; it goes with the model into every folder."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from pcme.core import files
from pcme.errors import FormatError

FILE = "origin.json"
DEEPEST = 4
_NAME = re.compile(r"[\w.@-]{1,80}", re.ASCII)


@dataclass(frozen=True)
class Origin:
    """The authors' file: its name and digest, the epoch and the scores that it states."""

    file: str
    sha256: str
    dataset: str
    epoch: int | None = None
    scores: Mapping[str, float] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """The origin as JSON has it."""
        return asdict(self)


def parsed(record: object, where: str) -> Origin:
    """The origin in a record; a FormatError for anything else."""
    try:
        if not isinstance(record, dict):
            raise TypeError(f"it is a {type(record).__name__}")
        origin = Origin(**record)
        texts = (origin.file, origin.sha256, origin.dataset)
        if not all(type(text) is str for text in texts) or type(origin.epoch) not in (
            int, type(None),
        ):  # fmt: skip
            raise TypeError("file, sha256 and dataset are text, epoch is a whole number")
        if dict(stated(origin.scores)) != origin.scores:
            raise TypeError("scores are finite numbers with plain names")
    except TypeError as error:
        raise FormatError(f"{where}: not the origin of a model, got {error}. Restore it from a backup.") from error
    return origin


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
        files.write_text(path, json.dumps(origin.record(), indent=2) + "\n")


def load(folder: Path) -> Origin | None:
    """The origin in a model's folder; None for a model that was trained here."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{path}: damaged, got {error}. Restore it from a backup.") from error
    return parsed(record, str(path))
