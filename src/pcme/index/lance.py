"""LanceDB as this package uses it: imported late, errors translated, writes flushed to the disk."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from pcme.core.files import sync
from pcme.errors import ConfigError, FormatError

FULL = (errno.EFBIG, errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk, or of a full share of one."""
SOURCE = re.compile(r",? \S+\.rs:\d+")
"""The place in the engine's sources that it appends to its errors."""


def engine() -> Any:  # noqa: ANN401 - lancedb's types are not public
    """The module lancedb, imported when an index is first used."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # it warns on stderr about its own future
    try:
        import lancedb
        import lancedb.index
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name}: not installed, an index needs it. Run: pip install 'pcme[index]'.") from error
    return lancedb


@contextmanager
def translated(uri: str, problem: str) -> Iterator[None]:
    """Raise the engine's errors as ours."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, pa.ArrowException) as error:
        reason = SOURCE.split(str(error), maxsplit=1)[0]
        full = any(f"os error {n}" in reason or getattr(error, "errno", 0) == n for n in FULL)
        remedy = "Free space on the disk." if full else "Run `pcme index verify` to find the damage."
        raise FormatError(f"{uri}: {problem} ({reason:.400}). {remedy}") from error


def local(uri: str) -> Path | None:
    """The folder of an index; None at an object store."""
    if uri.startswith("file://"):
        return Path(uri.removeprefix("file://"))  # as the engine reads it: nothing is unquoted
    return None if "://" in uri else Path(uri)


def flush(uri: str, since: float) -> None:
    """Flush to the disk the files written since then, and their names.

    The engine renames, so that a crash leaves all or nothing; a power cut leaves what has reached the disk.
    """
    folder = local(uri)
    for path, _, names in os.walk(folder) if folder is not None else ():
        fresh = [name for name in names if os.stat(f"{path}/{name}").st_mtime >= since - 1]
        for name in fresh:
            sync(Path(path, name))
        if fresh:
            sync(Path(path))


def quoted(text: str) -> str:
    """A text as a filter writes it.

    >>> quoted("o'clock")
    "'o''clock'"
    """
    return "'" + text.replace("'", "''") + "'"
