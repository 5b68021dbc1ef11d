"""Transfer: a file from a web address; a broken transfer goes on where it broke off, also in a later call.

What has come so far is kept in a hidden file, beside a note of which version of the file the server has: its ETag, or
its date. The rest is asked for by an HTTP range under the condition that the version is the same (RFC 9110, 13.1.5).
"""

import http.client
import json
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pcme.core import files
from pcme.core.progress import Progress, silent
from pcme.errors import DataError

CHUNK = 2**20
SILENCE = 60
"""Seconds without a byte after which a connection counts as broken."""


class _BrokenError(Exception):
    """The connection ended before the file did."""


@dataclass(frozen=True)
class _Part:
    """The file as far as it has come."""

    url: str
    data: Path
    note: Path

    @classmethod
    def of(cls, url: str, target: Path) -> "_Part":
        return cls(url, target.with_name(f".{target.name}.part"), target.with_name(f".{target.name}.part.json"))

    @property
    def size(self) -> int:
        return self.data.stat().st_size if self.data.is_file() else 0

    @property
    def known(self) -> dict[str, Any]:
        """What the note says of the version: its mark and its size; nothing for another address."""
        try:
            note = json.loads(self.note.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) and note.get("url") == self.url else {}

    @property
    def whole(self) -> bool:
        return self.data.is_file() and self.known.get("total") == self.size

    def begin(self, mark: str | None, total: int | None) -> None:
        """Start anew, with this version."""
        files.ensure_folder(self.data.parent, "the folder of a download")
        self.discard()
        self.keep(mark, total)
        self.data.touch()

    def keep(self, mark: str | None, total: int | None) -> None:
        with files.explaining(self.note, "cannot be written"):
            files.write_json(self.note, {"url": self.url, "mark": mark, "total": total})

    def discard(self) -> None:
        self.data.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)


def transfer(url: str, target: Path, *, limit: int, progress: Progress = silent) -> Path:
    """The hidden file beside `target` that holds all of what is at the address, at most `limit` bytes.

    A broken transfer goes on at once as long as every attempt brings something. Nothing is written before the server
    has answered.
    """
    part = _Part.of(url, target)
    while not part.whole:
        before = part.size
        try:
            _receive(part, limit, progress)
        except _BrokenError as error:
            if part.size <= before:
                raise _explained(part, error) from error
    return part.data


def discard(target: Path) -> None:
    """Remove what was transferred for `target`."""
    _Part.of("", target).discard()


def _receive(part: _Part, limit: int, progress: Progress) -> None:
    with _answer(part) as response:
        total = _prepare(part, response, limit)
        with files.explaining(part.data, "cannot be written"), part.data.open("ab") as file:
            while chunk := _read(response):
                file.write(chunk)
                if file.tell() > limit:
                    raise _too_long(part, limit, f"over {limit:,}")
                progress(f"{part.data.name[1:-5]} (MB)", file.tell() >> 20, total and total >> 20)
    if total is None:  # the end of the answer is the end of the file
        part.keep(None, part.size)
    elif part.size < total:
        raise _BrokenError("the connection broke")
    elif part.size > total:
        part.discard()
        raise DataError(f"{part.url}: sends more than it says, got over {total:,} bytes. Try again later.")


def _answer(part: _Part) -> http.client.HTTPResponse:
    """The server's answer: the rest of the file if it is the same version, or all of it."""
    request = urllib.request.Request(part.url, headers={"User-Agent": "pcme"})
    if part.size and (mark := part.known.get("mark")):
        request.add_header("Range", f"bytes={part.size}-")
        request.add_header("If-Range", mark)
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=SILENCE)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and part.size:
            part.discard()
            return _answer(part)
        reason = f"{error.code} {error.reason}"
        raise DataError(f"{part.url}: the server refuses it, got {reason}. Try again later.") from error
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenError(_reason(error)) from error
    return response


def _prepare(part: _Part, response: http.client.HTTPResponse, limit: int) -> int | None:
    """Make the part ready for the answer's bytes; return the size of the whole file, if it is said."""
    if response.status == http.HTTPStatus.PARTIAL_CONTENT:
        start, total = _range(response)
        if start != part.size:
            part.discard()
            raise DataError(f"{part.url}: sends another range than it was asked for, got {start}. Run it again.")
    else:
        length = response.headers.get("Content-Length") or ""
        total = int(length) if length.isdecimal() else None
        if (total or 0) > limit:
            raise _too_long(part, limit, f"{total:,}")
        part.begin(_mark(response), total)
    return total


def _range(response: http.client.HTTPResponse) -> tuple[int, int | None]:
    """Where the answer begins in the file, and the size of the file: "bytes 500-999/1000"."""
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range") or "")
    if not found:
        return -1, None
    return int(found[1]), int(found[2]) if found[2] != "*" else None


def _mark(response: http.client.HTTPResponse) -> str | None:
    """What tells this version from others; a weak ETag does not."""
    tag = response.headers.get("ETag") or ""
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenError(_reason(error)) from error


def _too_long(part: _Part, limit: int, got: str) -> DataError:
    part.discard()
    return DataError(f"{part.url}: is too long, got {got} bytes, where {limit:,} are the most. It may have moved.")


def _explained(part: _Part, error: Exception) -> DataError:
    if part.size:
        go_on = ": it goes on there" if part.known.get("mark") else ""
        broke = f"the transfer broke after {part.size:,} bytes"
        return DataError(f"{part.url}: {broke}, got {error}. Run the same command again{go_on}.")
    part.discard()
    return DataError(f"{part.url}: cannot be reached, got {error}. Run it where there is a network.")


def _reason(error: Exception) -> str:
    """What the operating system says: "Connection refused"."""
    cause = getattr(error, "reason", error)
    return getattr(cause, "strerror", None) or str(cause) or type(error).__name__
