"""Results as JSON: written whole or not at all, and read back as the same value."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from pcme.analysis.base import Result, registry
from pcme.core import files
from pcme.errors import ConfigError, FormatError

__all__ = ["Stored", "read", "record", "write"]

FORMAT = "pcme-analysis-1"

About = Mapping[str, str | int]
"""What a result is about: the run, the data, how much of it."""


@dataclass(frozen=True)
class Stored:
    """A result as it lies in a file."""

    analysis: str
    about: dict[str, str | int]
    result: Result


def record(name: str, result: Result, about: About) -> dict[str, Any]:
    """What `write` writes."""
    return {
        "format": FORMAT,
        "analysis": name,
        "about": dict(about),
        "numbers": [_plain(asdict(number)) for number in result.numbers()],
        "result": _plain(asdict(cast("Any", result))),
    }


def write(path: str | Path, name: str, result: Result, about: About) -> None:
    """Write a result of the analysis `name`."""
    text = json.dumps(record(name, result, about), ensure_ascii=False, indent=1)
    try:
        files.write_text(Path(path), text + "\n")
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written - {error.strerror or error} - is its folder there?"
        ) from error


def read(path: str | Path) -> Stored:
    """The result in a file that `write` wrote."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        if found["format"] != FORMAT:
            raise FormatError(f"{path} has format {found['format']!r}, not {FORMAT}")
        kind = registry.get(found["analysis"]).result
        result = TypeAdapter(kind).validate_python(found["result"])
    except (OSError, ValueError, LookupError, TypeError, ConfigError, ValidationError) as error:
        raise FormatError(
            f"{path} is not a result of an analysis - {error} - make it again with `pcme analyze`"
        ) from error
    return Stored(found["analysis"], found["about"], result)


def _plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON has
    """The same without what JSON lacks: NaN and infinity become text, which reads back as such."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
