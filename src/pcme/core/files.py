"""Atomic file writes: write under a hidden name, make durable, rename.

After a crash at any moment a file has its old contents or its new ones. A crash may leave a draft with a hidden name;
`clean` removes it.
"""

import json
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pcme.errors import ConfigError

_HIDDEN = re.compile(r"\..+\.[0-9a-f]{32}")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A hidden name to write under; it becomes the file at `path` when the `with` block ends without an error."""
    draft = hidden(path)
    try:
        yield draft
        sync(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    sync(path.parent)


def write_text(path: Path, text: str) -> None:
    """Replace the file's text atomically."""
    with replacing(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_json(path: Path, record: object) -> None:
    """Replace the file atomically by a record as indented JSON."""
    write_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def write_new(path: Path, data: bytes) -> None:
    """Write a new file durably; it is complete only once this has returned."""
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
    """A unique hidden name beside `path`."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}")


def clean(folder: Path) -> None:
    """Remove the drafts of interrupted writes; only for the one process that writes there.

    Folders are left alone: they may be drafts of more than one file.
    """
    for path in folder.glob(".*") if folder.is_dir() else ():
        if _HIDDEN.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


@contextmanager
def explaining(target: str | Path, fault: str) -> Iterator[None]:
    """Name the target and its fault, such as "cannot be written", in an error of the operating system."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{target}: {fault}, got {error.strerror or error}. Give another --out.") from error


def ensure_folder(folder: str | Path, role: str) -> Path:
    """Create the folder if it is missing; `role` names its use in errors: "the run's folder"."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"{target} cannot be {role}: {reason}. Give another folder (--out).") from error
    return target


@contextmanager
def prepared(folder: Path, role: str) -> Iterator[Path]:
    """Within the `with` block the folder is there; if the block fails, one that is new and empty goes again."""
    new = not folder.exists()
    target = ensure_folder(folder, role)
    try:
        yield target
    except BaseException:
        if new and not any(target.iterdir()):
            target.rmdir()
        raise
