"""Download: a published dataset or file of weights: where it is, under which terms, and what its folder will hold."""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pcme.core.progress import Progress, silent
from pcme.core.registry import Registry
from pcme.errors import ConfigError, DataError


class Item(ABC):
    """One part of a download: a file, an archive of which something is taken, a package."""

    name: str

    @property
    @abstractmethod
    def places(self) -> tuple[str, ...]:
        """The files and folders that it brings."""

    @property
    @abstractmethod
    def room(self) -> int:
        """The bytes of disk that bringing it takes, nearly."""

    @abstractmethod
    def described(self) -> str:
        """The address, the size and the checksum, for people."""

    def lacking(self, folder: Path) -> str:
        """How to get what must be put into the folder by hand before it can be brought; "" for nothing."""
        return ""

    @abstractmethod
    def bring(self, folder: Path, progress: Progress = silent) -> None:
        """Put its files into the folder; none of them is there before all are whole."""


@dataclass(frozen=True)
class Download(ABC):
    """A dataset or weights as a user names them: a frozen dataclass whose fields are its parameters."""

    about: ClassVar[str]
    terms: ClassVar[str]
    page: ClassVar[str]
    """The official page."""
    dataset: ClassVar[str] = ""
    """The dataset that reads the folder; "" for weights."""

    @property
    @abstractmethod
    def items(self) -> Sequence[Item]:
        """The parts, in the order in which they are brought."""

    def folder(self) -> Path:
        """Where `pcme` looks for it: a dataset below $PCME_DATA, weights in the working folder."""
        return Path(os.environ.get("PCME_DATA") or ".") / self.dataset if self.dataset else Path()

    def described(self) -> str:
        """What it is, its terms, and every part with address, size and checksum, for people."""
        head = [f"{self.about}", f"  page   {self.page}", f"  terms  {self.terms}"]
        return "\n".join([*head, *(f"  {line}" for item in self.items for line in item.described().splitlines())])

    def wanted(self, folder: Path) -> list[Item]:
        """The parts that are not in the folder yet; an error where one cannot be brought now."""
        wanted = [item for item in self.items if not all((folder / place).exists() for place in item.places)]
        for item in wanted:
            _refuse_half(item, folder)
        if missing := [text for item in wanted if (text := item.lacking(folder))]:
            listed = "\n".join(missing)
            raise DataError(f"{registry.name_of(type(self))}: not everything has a public address.\n{listed}")
        _require_room(folder, sum(item.room for item in wanted))
        return wanted

    def fetch(self, folder: Path, progress: Progress = silent) -> list[str]:
        """Bring the parts that are not in the folder yet; return their names."""
        wanted = self.wanted(folder)
        for item in wanted:
            item.bring(folder, progress)
        return [item.name for item in wanted]


registry: Registry[Download] = Registry("download", "pcme.data.fetch")


def amount(size: int) -> str:
    """
    >>> amount(13_510_573_713), amount(36_700_000), amount(2_000)
    ('13.5 GB', '36.7 MB', '2 kB')
    """
    if size >= 1e9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1e3))} kB"


def _refuse_half(item: Item, folder: Path) -> None:
    """Nothing that is there is replaced."""
    if there := [place for place in item.places if (folder / place).exists()]:
        raise ConfigError(
            f"{folder / there[0]}: is there already, but not all that {item.name} brings. "
            "Remove it, or give another folder (--out)."
        )


def _require_room(folder: Path, room: int) -> None:
    whole = folder.absolute()
    existing = next(path for path in (whole, *whole.parents) if path.exists())
    if (free := shutil.disk_usage(existing).free) < room:
        raise DataError(
            f"{folder}: is on a disk with too little room, got {amount(free)} free of {amount(room)} needed. "
            "Make room, or give another folder (--out)."
        )
