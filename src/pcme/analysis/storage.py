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
from pcme.errors import ConfigError, FormatError, PcmeError

FORMAT = "pcme-analysis-1"

About = Mapping[str, str | int]
"""What a result is about: the run, the split, the method."""


@dataclass(frozen=True)
class Stored:
    """A result in a file."""

    analysis: str
    about: dict[str, str | int]
    result: Result


def record(name: str, result: Result, about: About) -> dict[str, Any]:
    """The content of a file that `write` writes."""
    return {
        "format": FORMAT,
        "analysis": name,
        "about": dict(about),
        "numbers": [_plain(asdict(number)) for number in result.numbers()],
        "result": plain(result),
    }


def plain(result: Result) -> Any:  # noqa: ANN401 - whatever JSON has
    """The fields of a result as JSON has them."""
    return _plain(asdict(cast("Any", result)))


def write(path: str | Path, name: str, result: Result, about: About) -> None:
    """Write a result of the analysis `name`, whole or not at all."""
    text = json.dumps(record(name, result, about), ensure_ascii=False, indent=1)
    try:
        files.write_text(Path(path), text + "\n")
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be written, got {error.strerror or error}. Check that its folder exists."
        ) from error


def read(path: str | Path) -> Stored:
    """Read a file that `write` wrote; the result's class is that of the analysis it names."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise FormatError(f"format {content['format']!r} is not {FORMAT}")
        kind = registry.get(content["analysis"]).result
        result = TypeAdapter(kind).validate_python(content["result"])
        return Stored(content["analysis"], content["about"], result)
    except (OSError, ValueError, LookupError, TypeError, PcmeError, ValidationError) as error:
        raise FormatError(
            f"{path}: not a result of an analysis, got {error}. "
            "Run `pcme analyze` again, with the plugin that the analysis comes from, if any."
        ) from error


def _plain(value: object) -> Any:  # noqa: ANN401 - whatever JSON has
    """The same without what JSON lacks: NaN and infinity become text, which reads back as such."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
