"""Own: your folder in any known layout; without a validation split, the same images are held out in every run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pcme.data.dataset import CaptionDataset
from pcme.data.layout import Dataset, recognise, registry
from pcme.data.problems import Problems
from pcme.errors import ConfigError

_VALIDATION = ("val", "validation", "valid", "dev")
_WHOLE = "all"  # how the layouts call the one split of a folder without splits


@registry.register("own")
@dataclass(frozen=True)
class Own(Dataset):
    """Your own images in any of the other layouts; without a val split, `share` of the images."""

    rank: ClassVar[int] = 9
    layout: ClassVar[str] = "images and captions in any other layout: a table, text files beside the images, shards ..."

    root: Path
    share: float = 0.1
    seed: int = 0
    """Chooses the images that are held out."""

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ConfigError(f"share: must be between 0 and 1, got {self.share}.")

    @property
    def splits(self) -> tuple[str, ...]:
        """train and val, and those that are neither."""
        used = ("train", _WHOLE, *_VALIDATION)
        return ("train", "val", *(name for name in self._inner.splits if name not in used))

    def read(self, split: str, problems: Problems) -> CaptionDataset:
        """One split; images held back for validation are not in train."""
        self.checked_split(split)
        inner = self._inner
        validation = next((name for name in _VALIDATION if name in inner.splits), None)
        if split == "val" and validation:
            return inner.load(validation, problems)
        if split not in ("train", "val"):
            return inner.load(split, problems)
        # Both parts are read from the same list: its problems are reported once.
        whole = inner.load(self._source(inner), problems if split == "train" else None)
        if validation:
            return whole
        train, val = whole.divided(self.share, seed=self.seed)
        return val if split == "val" else replace(train, split="train")

    @property
    def _inner(self) -> Dataset:
        return recognise(Path(self.root))

    def _source(self, inner: Dataset) -> str:
        for name in ("train", _WHOLE):
            if name in inner.splits:
                return name
        known = ", ".join(inner.splits)
        raise ConfigError(f'{self.root}: no split "train", it has {known}. Name one train, or leave the splits out.')
