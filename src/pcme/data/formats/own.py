"""Own: your folder in any known layout; a validation split is held out where it has none.

Where the folder has no split of that kind, a share of its training images is held back: the same
ones in every run, so that runs can be compared.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from pcme.data.dataset import CaptionDataset
from pcme.data.layout import Dataset, recognised, registry
from pcme.data.problems import Problems
from pcme.errors import ConfigError

_VALIDATION = ("val", "validation", "valid", "dev")
_WHOLE = "all"  # how the layouts call the one split of a folder without splits


@registry.register("own")
@dataclass(frozen=True)
class Own(Dataset):
    """Your own images in any of the other layouts; without a val split, `share` of the images.

    `seed` chooses which. A split called test is never used for validation.
    """

    layout: ClassVar[str] = "images and captions in any other layout: a table, text files beside the images, shards ..."
    rank: ClassVar[int] = 9

    root: Path
    share: float = 0.1
    seed: int = 0

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
        inner = self._inner
        given = next((name for name in _VALIDATION if name in inner.splits), None)
        self.checked_split(split)
        if split == "val" and given is not None:
            return inner.load(given, problems)
        if split not in ("train", "val"):
            return inner.load(split, problems)
        # Both parts are read from the same list: what is wrong with it is said once.
        noted = problems if split == "train" else None
        whole = inner.load(self._source(inner), noted)
        if given is not None:
            return whole
        train, val = whole.divided(self.share, seed=self.seed)
        return val if split == "val" else replace(train, split="train")

    @property
    def _inner(self) -> Dataset:
        return recognised(Path(self.root))

    def _source(self, inner: Dataset) -> str:
        for name in ("train", _WHOLE):
            if name in inner.splits:
                return name
        raise ConfigError(
            f'{self.root}: no split "train", it has {", ".join(inner.splits)}. Call one of them '
            "train, or leave the splits out."
        )
