"""Files that are whole or not there: written under a hidden name, made durable, then renamed.

After a crash at any moment a file has its old contents or its new ones. What a crash leaves behind
has a hidden name, and `clean` removes it.
"""

import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["clean", "hidden", "replacing", "sync", "write_new", "write_text"]

_HIDDEN = re.compile(r"\..+\.[0-9a-f]{32}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A hidden name to write under; at the end of the `with` block it becomes the file at `path`.

    When the block fails, the file stays as it was.
    """
    draft = hidden(path)
    try:
        yield draft
        sync(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """Put text in the place of what the file held, at once."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_new(path: Path, data: bytes) -> None:
    """A file that was not there before, durable; whole only once this has returned."""
    with path.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync(path: Path) -> None:
    """Make a file's contents, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hidden(path: Path) -> Path:
    """A name beside `path` that nobody else uses."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}")


def clean(folder: Path) -> None:
    """Remove what interrupted writes left in a folder; only for the one process that writes there.

    Folders are left alone: they may be somebody's drafts of more than one file.
    """
    for path in folder.glob(".*") if folder.is_dir() else ():
        if _HIDDEN.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)
