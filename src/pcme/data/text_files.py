"""Text files: read so that no byte can stop it, with bounded memory."""

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from pcme.data.problems import Problems
from pcme.errors import FormatError

MAX_WORDS = 256  # of a caption; GloVe + GRU models gain nothing beyond a paragraph
MAX_CHARACTERS = 16 * MAX_WORDS  # of a caption: many scripts put no spaces between words
MAX_LINE = 2**20  # bytes of one line of text that are read; the rest is dropped and reported


def printable(name: str) -> str:
    """The name with "?" for what is not UTF-8: such a name can be neither shown nor stored.

    >>> printable("caf\\udce9.jpg")
    'caf?.jpg'
    """
    return name.encode(errors="replace").decode()


def caption_text(value: str, where: str, problems: Problems) -> str | None:
    """The caption with single spaces and at most MAX_WORDS words; None when it has no words.

    >>> caption_text("  a   wren ", "captions.csv:2", Problems())
    'a wren'
    """
    words = value.split(None, MAX_WORDS)
    if not words:
        problems.add("caption-empty", where, "no words")
        return None
    text = " ".join(words[:MAX_WORDS])
    if len(words) > MAX_WORDS or len(text) > MAX_CHARACTERS:
        limits = f"{MAX_WORDS} words, {MAX_CHARACTERS:,} characters"
        problems.add("caption-too-long", where, f"{len(value):,} characters; cut to {limits}")
    return _encodable(text[:MAX_CHARACTERS].rstrip(), where, problems)


def decoded(raw: bytes, where: str, problems: Problems) -> str:
    """The bytes as text; those that are not UTF-8 become U+FFFD and are reported."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]  # of the text without its mark, unlike raw[error.start]
        problems.add("caption-not-utf8", where, f"byte {byte:#04x} at {error.start}")
        return raw.decode("utf-8-sig", "replace")


def text_lines(path: Path, problems: Problems, *, name: str = "") -> Iterator[tuple[str, str]]:
    """(where, line) of a text file, as "name:7"; any bytes, lines of any length, bounded memory."""
    with open(path, "rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), start=1):
            where = f"{name or path.name}:{number}"
            if len(line) == MAX_LINE and not line.endswith(b"\n") and _passed_over(file):
                problems.add("caption-too-long", where, f"a line of over {MAX_LINE:,} bytes")
                line = _whole_characters(line)
            yield where, decoded(line, where, problems).rstrip("\r\n")


def filled_lines(path: Path, problems: Problems, *, name: str = "") -> Iterator[str]:
    """The lines of a text file that are not blank, without the spaces around them."""
    return (text for _, line in text_lines(path, problems, name=name) if (text := line.strip()))


def json_object(text: str, where: str, problems: Problems) -> dict[str, Any] | None:
    """The object that a text holds; None, and a problem, when it holds none."""
    try:
        value = json.loads(text)
        fault = "not a JSON object"
    except (ValueError, RecursionError) as error:
        value, fault = None, f"not JSON: {error}"
    if isinstance(value, dict):
        return value
    problems.add("row-malformed", where, fault)
    return None


def json_document(path: Path) -> Any:  # noqa: ANN401 - a JSON document is anything
    """The contents of a .json or .json.gz file; a FormatError when it is not JSON."""
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            return json.load(file)
    except (ValueError, EOFError, RecursionError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"{path}: not JSON, {error}. Is the download complete?") from error


def inside(root: Path, name: str) -> str | None:
    """`name` relative to `root`, or None when it points outside of it.

    A table may name any file of the machine, and what is read here may be served later.

    >>> inside(Path("/photos"), "birds/../wren.jpg"), inside(Path("/photos"), "../secret.jpg")
    ('wren.jpg', None)
    """
    base = os.path.realpath(root)
    try:
        target = Path(os.path.realpath(os.path.join(base, name)))
    except ValueError:  # a NUL, or half a surrogate pair: no file can have that name
        return None
    return target.relative_to(base).as_posix() if target.is_relative_to(base) else None


def _encodable(text: str, where: str, problems: Problems) -> str:
    """The text with half surrogate pairs, which JSON can spell but no file can hold, replaced."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        problems.add("caption-not-utf8", where, f"half a surrogate pair at {error.start}")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _passed_over(file: IO[bytes]) -> bool:
    """Whether the line goes on; whatever is left of it has then been read past."""
    more = rest = file.readline(MAX_LINE)
    while rest and not rest.endswith(b"\n"):
        rest = file.readline(MAX_LINE)
    return bool(more)


def _whole_characters(line: bytes) -> bytes:
    """The line without its last character unless that is ASCII: the cut may go through it."""
    cut = line.rstrip(bytes(range(0x80, 0xC0)))
    return cut[:-1] if cut[-1:] >= b"\xc0" else cut
