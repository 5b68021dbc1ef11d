"""WebFile: a file or archive at a web address, checked by its published checksum."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pcme.core.progress import Progress, silent
from pcme.data.fetch.archives import CHUNK, unpack
from pcme.data.fetch.base import Item, amount
from pcme.data.fetch.transfer import discard, transfer
from pcme.errors import FormatError


@dataclass(frozen=True)
class WebFile(Item):
    """A file at an address, or one that a person must ask for: then `by_hand` says how, and there is no address.

    `digest` is "sha256:..." or "md5:...", maybe only the first digits, and `published` says by whom; "" where nobody
    publishes one. `takes` is {file or folder in the archive: its place}, of `unpacked` bytes; without it the file
    itself is what is wanted. Sizes are nearly right: twice as much is refused.
    """

    name: str
    url: str = ""
    size: int = 0
    digest: str = ""
    published: str = ""
    takes: Mapping[str, str] = field(default_factory=dict)
    unpacked: int = 0
    by_hand: str = ""

    @property
    def places(self) -> tuple[str, ...]:
        """What it brings."""
        return tuple(self.takes.values()) or (self.name,)

    @property
    def room(self) -> int:
        """The file, and what is taken from it."""
        return self.size * bool(self.url) + self.unpacked

    def described(self) -> str:
        """Two lines: name, size and checksum; address, or what to do by hand."""
        size = amount(self.size) if self.size else "size not published"
        digest = f"{self.digest} ({self.published})" if self.digest else "no checksum is published"
        return f"{self.name}, {size}, {digest}\n    {self.url or self.by_hand}"

    def lacking(self, folder: Path) -> str:
        """How to get the file, unless the person has put it into the folder."""
        if self.url or (folder / self.name).is_file():
            return ""
        return f"{self.name}: {self.by_hand} Put it into {folder} and run the same command again."

    def bring(self, folder: Path, progress: Progress = silent) -> None:
        """Transfer and check it; then put it, or what is taken from it, into the folder."""
        target = folder / self.name
        given = bool(self.takes) and target.is_file()
        path = target if given else transfer(self.url, target, limit=2 * self.size + CHUNK, progress=progress)
        try:
            self._check(path, progress)
            self._place(path, folder, progress)
        except FormatError:  # it is of no use; after a full disk it is
            discard(target)
            raise
        discard(target)

    def _check(self, path: Path, progress: Progress) -> None:
        if self.digest:
            check_digest(path, self.digest, self.url or str(path), progress)

    def _place(self, path: Path, folder: Path, progress: Progress) -> None:
        if self.takes:
            unpack(path, self.takes, folder, name=self.name, limit=2 * self.unpacked, progress=progress)
        else:
            os.replace(path, folder / self.name)


def check_digest(path: Path, digest: str, where: str, progress: Progress = silent) -> None:
    """Refuse a file whose digest is not "sha256:..." or "md5:...", of which the first digits may be enough."""
    algorithm, _, expected = digest.partition(":")
    actual, total = hashlib.new(algorithm, usedforsecurity=False), path.stat().st_size
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            actual.update(chunk)
            progress(f"checking {path.name.strip('.')} (MB)", file.tell() >> 20, total >> 20)
    if not actual.hexdigest().startswith(expected):
        got = actual.hexdigest()[: max(8, len(expected))]
        raise FormatError(
            f"{where}: wrong checksum, its {algorithm} must be {expected}, got {got}. "
            "Run it again; if it stays so, the file has changed and is not used."
        )
