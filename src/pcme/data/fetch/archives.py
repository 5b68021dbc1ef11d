"""Archives: what is wanted of a zip or tar is put into its places, all of it or nothing, and nowhere else.

A name that leads out of the archive, a link, a device or more bytes than the limit end it; so does damage. Names and
sizes in an archive are somebody's claims: they are judged before anything is written.
"""

import gzip
import io
import os
import re
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, cast

from pcme.core.progress import Progress, silent
from pcme.errors import DataError, FormatError

CHUNK = 2**20


@dataclass(frozen=True)
class _Member:
    """A file, or something else than a folder, in an archive."""

    name: str
    size: int
    plain: bool
    open: Callable[[], IO[bytes]]


class _BoundedGzip(gzip.GzipFile):
    """A packed tar as tarfile reads it: a header that claims to be huge is refused before it is read."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(_bounded(size))


class _BoundedFile(io.BufferedReader):
    """The same for a tar that is not packed."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(_bounded(size))


def unpack(
    archive: Path, takes: Mapping[str, str], folder: Path, *, name: str, limit: int, progress: Progress = silent
) -> None:
    """Put files and folders of an archive into their places below `folder`: {"images": "images"}.

    At most `limit` bytes are unpacked. `name` is the archive's in errors.
    """
    draft = folder / f".{name}.unpacking"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        with _explained(name):
            draft.mkdir()
            _extract(archive, takes, draft, limit, lambda done: progress(f"unpacking {name} (MB)", done >> 20, None))
            if missing := [member for member, place in takes.items() if not (draft / place).exists()]:
                raise FormatError(f"another archive than expected, it has no {missing[0]}. Look at its official page.")
            for place in takes.values():
                (folder / place).parent.mkdir(parents=True, exist_ok=True)
                os.replace(draft / place, folder / place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _extract(archive: Path, takes: Mapping[str, str], draft: Path, limit: int, report: Callable[[int], None]) -> None:
    """Write every wanted member below `draft`, which nothing else has written to."""
    total = 0
    for member in _members(archive):
        place = _place(member.name, takes)
        if place is None:
            continue
        total += _judged_size(member)
        if total > limit:
            raise FormatError(f"too large, got over {limit:,} bytes. Do not use it.")
        target = draft / place
        target.parent.mkdir(parents=True, exist_ok=True)
        with member.open() as source, target.open("xb") as copy:
            shutil.copyfileobj(source, copy, CHUNK)
        report(total)


def _place(name: str, takes: Mapping[str, str]) -> str | None:
    """Where a member goes; None for one that nobody wants."""
    parts = PurePosixPath(name).parts
    if ".." in parts or "\\" in name or name.startswith("/") or re.match("[A-Za-z]:", name):
        raise FormatError(f"a name in it leads out of it, got {name!r:.80}. Do not use it.")
    path = "/".join(parts)
    for wanted, place in takes.items():
        if path == wanted or path.startswith(f"{wanted}/"):
            return place + path[len(wanted) :]
    return None


def _judged_size(member: _Member) -> int:
    if not member.plain or member.size < 0:
        raise FormatError(
            f"it holds more than plain files, got a link or the like, {member.name!r:.80}. Do not use it."
        )
    return member.size


def _members(archive: Path) -> Iterator[_Member]:
    yield from (_zip_members if zipfile.is_zipfile(archive) else _tar_members)(archive)


def _zip_members(archive: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(archive) as file:
        for info in file.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            plain = kind in (0, stat.S_IFREG) and not info.flag_bits & 1  # 1: encrypted
            if not info.is_dir():
                yield _Member(info.filename, info.file_size, plain, partial(file.open, info))


def _tar_members(archive: Path) -> Iterator[_Member]:
    with _opened(archive) as stream, tarfile.TarFile(fileobj=stream) as tar:
        for info in tar:
            if not info.isdir():
                opening = cast("Callable[[], IO[bytes]]", partial(tar.extractfile, info))  # a plain file has one
                yield _Member(info.name, info.size, info.isreg() and not info.issparse(), opening)


def _opened(archive: Path) -> _BoundedGzip | _BoundedFile:
    with archive.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
    return _BoundedGzip(archive) if packed else _BoundedFile(io.FileIO(archive))


def _bounded(size: int | None) -> int:
    if size is None or not 0 <= size <= CHUNK:
        raise tarfile.ReadError(f"a header of {size} bytes")
    return size


@contextmanager
def _explained(name: str) -> Iterator[None]:
    """Name the archive in an error; damaged bytes can make the readers raise nearly anything."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{name}: {error}") from error
    except OSError as error:
        if error.strerror and not isinstance(error, gzip.BadGzipFile):
            raise DataError(f"{name}: cannot be unpacked, got {error.strerror}. Make room, or look at it.") from error
        raise _damaged(name, error) from error
    except Exception as error:
        raise _damaged(name, error) from error


def _damaged(name: str, error: Exception) -> FormatError:
    got = f"{type(error).__name__}: {error}"
    return FormatError(f"{name}: damaged, or neither a zip nor a tar, got {got:.120}. Fetch it again.")
