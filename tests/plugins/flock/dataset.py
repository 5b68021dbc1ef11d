"""A dataset in one file: squares of one colour, and captions that name it."""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from pcme.data import CaptionDataset, Dataset, ImageSource, Problems, registry

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 60, 220)}
COUNTS = {"train": 24, "val": 12, "test": 12}


@dataclass(frozen=True)
class Squares(ImageSource):
    """Squares, each a little lighter or darker than the last of its colour."""

    split: str

    def __len__(self) -> int:
        return COUNTS[self.split]

    def id(self, index: int) -> str:
        return f"{self.split}-{index}"

    def load(self, index: int) -> Image.Image:
        colour = list(COLOURS.values())[index % len(COLOURS)]
        return Image.new("RGB", (16, 16), tuple(min(255, part + index) for part in colour))

    def stamp(self, index: int) -> str:
        return "1"


@registry.register("flock-squares")
@dataclass(frozen=True)
class ColouredSquares(Dataset):
    """Squares of one colour; a caption matches every square of the colour it names."""

    adjective: str = "plain"

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(COUNTS)

    def read(self, split: str, problems: Problems) -> CaptionDataset:
        images = Squares(self.checked_split(split))
        colours = np.arange(len(images)) % len(COLOURS)
        names = [list(COLOURS)[colour] for colour in colours]
        return CaptionDataset(
            name="flock-squares",
            split=split,
            images=images,
            captions=[f"a {self.adjective} {name} square" for name in names],
            caption_image=np.arange(len(images)),
            facts=colours[:, None],
            said=colours[:, None],
        )
