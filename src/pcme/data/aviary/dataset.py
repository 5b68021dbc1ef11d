"""Aviary: birds drawn by code, with captions whose every match is known exactly.

Nothing is downloaded or stored: images are drawn and captions written on access, the same for one seed. A caption says
up to six of eight attributes, so it matches from one image to all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import overload

import numpy as np
import PIL
from jaxtyping import Bool, Int64
from PIL import Image

from pcme.core.checks import require
from pcme.core.random import numpy_stream
from pcme.data.aviary.attributes import LABELS, SHAPE, SPECIES, one_hot, species_facts, species_name
from pcme.data.aviary.captions import CHANCES, SUBSETS, compose, mentioned, write
from pcme.data.aviary.drawing import DRAWING_VERSION, MIN_PIXELS, draw
from pcme.data.aviary.parsing import read
from pcme.data.dataset import CaptionDataset, NamedValues, Written
from pcme.data.layout import Dataset, registry
from pcme.data.problems import Problems
from pcme.data.sources import ImageSource
from pcme.errors import ConfigError
from pcme.retrieval.labels import UNSAID

Facts = Int64[np.ndarray, "n a"]


@dataclass(frozen=True, eq=False)
class Drawn(ImageSource):
    """Images that are drawn on access."""

    split: str
    facts: Facts
    per_species: int
    seed: int
    pixels: int

    def __len__(self) -> int:
        return len(self.facts)

    def id(self, index: int) -> str:
        """The numbers of the species and of the image, as in "test/0017-03"."""
        species, number = divmod(range(len(self))[index], self.per_species)
        return f"{self.split}/{species:04d}-{number:02d}"

    def load(self, index: int) -> Image.Image:
        """The image, freshly drawn."""
        generator = numpy_stream(self.seed, "aviary", "picture", self.id(index))
        return draw(self.facts[index], generator, pixels=self.pixels)

    def stamp(self, index: int) -> str:
        """Everything that the pixels depend on."""
        facts = "".join(map(str, self.facts[index].tolist()))
        return f"{DRAWING_VERSION}:{PIL.__version__}:{self.seed}:{self.pixels}:{facts}"


@dataclass(frozen=True, eq=False)
class Lazy(Sequence[str]):
    """Texts that are written on access.

    >>> Lazy(3, "caption {}".format)[1:]
    ['caption 1', 'caption 2']
    """

    length: int
    make: Callable[[int], str]

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        picked = range(self.length)[index]
        return self.make(picked) if isinstance(picked, int) else [self.make(i) for i in picked]


@dataclass(frozen=True)
class Writer:
    """Writes captions of birds, and reads them."""

    write = staticmethod(write)
    read = staticmethod(read)

    def unmatched(self, split: CaptionDataset, count: int, *, seed: int = 0) -> Written | None:
        """Captions that match no image of the split; None where its images leave nothing to say.

        They say as many attributes as other captions do, as far as the absent birds allow.
        """
        require("count", count >= 1, "at least 1", count)
        present = np.unique(split.facts, axis=0)
        absent = [_absent_values(present[:, subset], subset) for subset in SUBSETS]
        chances = CHANCES * [len(values) > 0 for values in absent]
        if not chances.any():
            return None
        generator = numpy_stream(seed, "aviary", "unmatched")
        chosen = generator.choice(len(SUBSETS), count, p=chances / chances.sum())
        facts, saying = generator.integers(0, SHAPE, (count, len(SHAPE))), SUBSETS[chosen]
        for bird, number in zip(facts, chosen.tolist(), strict=True):
            values = absent[number]
            bird[SUBSETS[number]] = values[generator.integers(len(values))]
        captions = [compose(*bird, generator) for bird in zip(facts, saying, strict=True)]
        return Written(captions, np.where(saying, facts, UNSAID))


@registry.register("aviary")
@dataclass(frozen=True)
class Aviary(Dataset):
    """Birds drawn by code, with captions whose every match is known exactly.

    A species is a combination of all attributes but the background; no two splits share one. Each species has a
    habitat, drawn at random: how often its birds are seen on each background.

    >>> dataset = Aviary(test_species=2, test_images=3, captions_per_image=4).load("test")
    >>> dataset
    CaptionDataset(aviary/test: 6 images, 24 captions)
    >>> print(dataset.caption_ids[9], dataset.captions[9])
    test/0000-02#1 look at this tiny bird with an azure breast, a <unk> tail and a curved bill
    """

    seed: int = 0
    pixels: int = 64
    captions_per_image: int = 10
    train_species: int = 1500
    train_images: int = 3
    """Images per species."""
    val_species: int = 50
    val_images: int = 20
    test_species: int = 50
    test_images: int = 20

    def __post_init__(self) -> None:
        for field in fields(self)[1:]:
            least = MIN_PIXELS if field.name == "pixels" else 1
            if getattr(self, field.name) < least:
                raise ConfigError(
                    f"{field.name}: must be at least {least}, got {getattr(self, field.name)}. "
                    f"The default is {field.default}."
                )
        total = self.train_species + self.val_species + self.test_species
        if total > SPECIES:
            raise ConfigError(
                f"train_species, val_species, test_species: must be at most {SPECIES} in all, got {total}. "
                "Ask for fewer species and more images per species."
            )

    @property
    def splits(self) -> tuple[str, ...]:
        """Train, val and test."""
        return ("train", "val", "test")

    def read(self, split: str, problems: Problems) -> CaptionDataset:
        """One split; it has no problems to report."""
        species = self._species(self.checked_split(split))
        per_species: int = getattr(self, f"{split}_images")
        facts = _facts(species, per_species, numpy_stream(self.seed, "aviary", "habitat", split))
        images = Drawn(split, facts, per_species, self.seed, self.pixels)
        said = np.repeat(facts, self.captions_per_image, 0)
        saying = mentioned(len(said), numpy_stream(self.seed, "aviary", "mentioned", split))
        said[~saying] = UNSAID
        ids = Lazy(len(said), partial(_caption_id, images, self.captions_per_image))
        return CaptionDataset(
            "aviary",
            split,
            images,
            captions=Lazy(len(said), partial(_caption, self.seed, facts, said, ids)),
            caption_image=np.repeat(np.arange(len(facts)), self.captions_per_image),
            facts=facts,
            said=said,
            caption_ids=ids,
            classes=NamedValues(np.repeat(np.arange(len(species)), per_species), tuple(map(species_name, species))),
            labels=NamedValues(one_hot(facts), LABELS),
            writer=Writer(),
        )

    def _species(self, split: str) -> Int64[np.ndarray, "s 7"]:
        """The species of a split; more of them for training leave the other splits unchanged."""
        order = numpy_stream(self.seed, "aviary", "species").permutation(SPECIES)
        test, val = self.test_species, self.test_species + self.val_species
        numbers = {"test": order[:test], "val": order[test:val], "train": order[-self.train_species :]}
        return species_facts(numbers[split])


def _facts(species: Int64[np.ndarray, "s 7"], per_species: int, generator: np.random.Generator) -> Facts:
    """The facts of the images of each species: its own, and a background by its habitat."""
    shares = generator.standard_exponential((len(species), 3)).cumsum(1)
    drawn = generator.random((len(species), per_species, 1)) * shares[:, None, -1:]
    background = (drawn > shares[:, None, :-1]).sum(-1)
    return np.column_stack([np.repeat(species, per_species, 0), background.ravel()])


def _caption_id(images: Drawn, per_image: int, index: int) -> str:
    image, number = divmod(index, per_image)
    return f"{images.id(image)}#{number}"


def _caption(seed: int, facts: Facts, said: Int64[np.ndarray, "m a"], ids: Lazy, index: int) -> str:
    generator = numpy_stream(seed, "aviary", "caption", ids[index])
    return compose(facts[index * len(facts) // len(said)], said[index] != UNSAID, generator)


def _absent_values(present: Int64[np.ndarray, "p k"], subset: Bool[np.ndarray, " a"]) -> Int64[np.ndarray, "v k"]:
    """All combinations of the values of some attributes that no row has."""
    sizes = np.array(SHAPE)[subset]
    if not len(sizes):
        return np.empty((0, 0), np.int64)
    missing = np.ones(sizes, np.bool_)
    missing[tuple(present.T)] = False
    return np.argwhere(missing)
