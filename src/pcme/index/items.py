"""Sources: what `SearchIndex.add` takes: ids that are known at once, embeddings made on demand.

Items that are in an index already are then never decoded or encoded again: an interrupted `add` is
gone on with by calling it again.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from PIL import Image

from pcme.data.arrays import Stored
from pcme.data.dataset import CaptionDataset, Files, ImageSource, Subset
from pcme.data.images.decoding import ImageError
from pcme.data.loading.batches import image_batches
from pcme.data.problems import Problems
from pcme.data.records import IMAGE_SUFFIXES
from pcme.embedding import Embedding, joined
from pcme.errors import DataError
from pcme.index.encoder import Encoder, Picture
from pcme.index.origins import Origin, origins_of
from pcme.index.rows import Kind, Rows, checked_ids, metadata_table

__all__ = ["Captions", "Embeddings", "ImageList", "Pictures", "Source"]
__all__ += ["captions_of", "images_below", "images_of", "require_distinct"]


class Source(ABC):
    """Items with ids."""

    kind: Kind
    ids: Sequence[str]
    chunk: int
    """Items that are embedded and written at once."""

    @abstractmethod
    def rows(self, places: Sequence[int], encoder: Encoder, problems: Problems) -> Rows | None:
        """These items, embedded; those that cannot be used are reported and left out."""

    @abstractmethod
    def origins(self, places: Sequence[int]) -> list[Origin]:
        """Where these items come from, known before they are embedded."""

    @property
    def model(self) -> str | None:
        """The digest of the model that these are embeddings of, where that is known."""
        return None


@dataclass(frozen=True, eq=False)
class Embeddings(Source):
    """Embeddings that are there already."""

    ids: Sequence[str]
    embedding: Embedding
    kind: Kind = "image"
    paths: Sequence[str | None] | None = None
    texts: Sequence[str | None] | None = None
    metadata: pa.Table | None = None
    chunk: int = 16384

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.embedding):
            raise DataError(f"{len(self.ids):,} ids for {len(self.embedding):,} embeddings")

    def rows(self, places: Sequence[int], encoder: Encoder, problems: Problems) -> Rows:
        """They need nothing."""
        return Rows(
            [self.ids[n] for n in places],
            [self.kind] * len(places),
            self.embedding[torch.tensor(places)],
            _picked(self.paths, places),
            _picked(self.texts, places),
            None if self.metadata is None else self.metadata.take(list(places)),
        )

    def origins(self, places: Sequence[int]) -> list[Origin]:
        """As they were given."""
        kinds = [self.kind] * len(places)
        return origins_of(kinds, _picked(self.paths, places), _picked(self.texts, places))


@dataclass(frozen=True, eq=False)
class Pictures(Source):
    """Images to be decoded and encoded; `vectors` take the place of pixels where they are given."""

    images: ImageSource
    ids: Sequence[str]
    metadata: pa.Table | None = None
    vectors: Stored | None = None
    kind: Kind = "image"
    chunk: int = 512

    def rows(self, places: Sequence[int], encoder: Encoder, problems: Problems) -> Rows | None:
        """Decoded in threads, encoded in batches."""
        kept, parts = [], []
        for some, inputs in self._inputs(places, encoder, problems):
            kept += some
            with torch.no_grad():
                parts.append(encoder.model.embed_images(inputs))
        if not kept:
            return None
        return Rows(
            [self.ids[n] for n in kept],
            [self.kind] * len(kept),
            joined(parts),
            paths=self._paths(kept),
            metadata=None if self.metadata is None else self.metadata.take(kept),
        )

    def origins(self, places: Sequence[int]) -> list[Origin]:
        """Their files."""
        return origins_of([self.kind] * len(places), self._paths(places), None)

    def _paths(self, places: Sequence[int]) -> list[str | None]:
        paths = [self.images.path(n) for n in places]
        return [None if path is None else str(path.resolve()) for path in paths]

    def _inputs(
        self, places: Sequence[int], encoder: Encoder, problems: Problems
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        if self.vectors is not None:
            yield list(places), torch.stack([self.vectors.row(n) for n in places])
            return
        wanted = Subset(self.images, np.asarray(places, np.int64))
        transform = encoder.model.transform
        for rows, pixels in image_batches(wanted, transform, batch_size=64, problems=problems):
            yield [places[n] for n in rows.tolist()], pixels


@dataclass(frozen=True, eq=False)
class Captions(Source):
    """Texts to be encoded."""

    texts: Sequence[str]
    ids: Sequence[str]
    metadata: pa.Table | None = None
    vectors: Stored | None = None
    kind: Kind = "caption"
    chunk: int = 2048

    def rows(self, places: Sequence[int], encoder: Encoder, problems: Problems) -> Rows | None:
        """Encoded in batches; a text without words is left out."""
        if self.vectors is not None:
            kept = list(places)
            with torch.no_grad():
                vectors = torch.stack([self.vectors.row(n) for n in kept])
                embedding = encoder.model.embed_caption_vectors(vectors)
        else:
            kept = [n for n in places if self._has_words(n, encoder, problems)]
            if not kept:
                return None
            embedding = encoder.captions([self.texts[n] for n in kept])
        texts = [self.texts[n] for n in kept]
        metadata = None if self.metadata is None else self.metadata.take(kept)
        ids, kinds = [self.ids[n] for n in kept], [self.kind] * len(kept)
        return Rows(ids, kinds, embedding, None, texts, metadata)

    def origins(self, places: Sequence[int]) -> list[Origin]:
        """Their words."""
        return origins_of([self.kind] * len(places), None, [self.texts[n] for n in places])

    def _has_words(self, place: int, encoder: Encoder, problems: Problems) -> bool:
        if encoder.model.tokeniser.split(self.texts[place]):
            return True
        problems.add("caption-empty", self.ids[place], f"no words in {self.texts[place]!r:.40}")
        return False


@dataclass(frozen=True, eq=False)
class ImageList(ImageSource):
    """Pictures given one by one: files, or images in memory."""

    pictures: Sequence[Picture]

    def __len__(self) -> int:
        return len(self.pictures)

    def id(self, index: int) -> str:
        """The file's name, or the number."""
        path = self.path(index)
        return f"picture {index}" if path is None else str(path)

    def load(self, index: int) -> Image.Image:
        """The picture, decoded."""
        picture = self.pictures[index]
        if isinstance(picture, Image.Image):
            return picture.convert("RGB")
        path = Path(picture)
        if path.is_dir():
            raise ImageError("image-unreadable", "a folder")
        return Files(path.parent, [path.name]).load(0)

    def stamp(self, index: int) -> str:
        """Not needed: nothing of it is kept."""
        return self.id(index)

    def path(self, index: int) -> Path | None:
        """The file."""
        picture = self.pictures[index]
        return None if isinstance(picture, Image.Image) else Path(picture)


def require_distinct(sources: Sequence[Source]) -> None:
    """An error when two items have one id. Two sources may give the same item."""
    owners: dict[str, Source] = {}
    for source in sources:
        for place, one in enumerate(checked_ids(source.ids)):
            owner = owners.setdefault(one, source)
            if owner is not source:
                (first,) = owner.origins([owner.ids.index(one)])
                (second,) = source.origins([place])
                if not first.agrees(second):
                    raise DataError(
                        f'two items have the id "{one}" - {first} and {second} - add a folder that '
                        "holds both, or give them ids of their own"
                    )


def images_below(folder: Path, part: str = "") -> Pictures:
    """All images in a folder, or in a part of it, called photos/a.jpg; not the hidden ones."""
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in (folder / part).rglob("*")
        if path.suffix.lower() in IMAGE_SUFFIXES
        and path.is_file()
        and not any(name.startswith(".") for name in path.relative_to(folder).parts)
    )
    if not names:
        raise DataError(f"{folder / part} has no images ({', '.join(IMAGE_SUFFIXES)})")
    return Pictures(Files(folder, names), [f"{folder.resolve().name}/{name}" for name in names])


def images_of(dataset: CaptionDataset) -> Pictures:
    """The images of a split, with all that is known of them."""
    count = len(dataset.images)
    ids = [dataset.images.id(n) for n in range(count)]
    known = metadata_table(_known(dataset), count)
    return Pictures(dataset.images, ids, known, dataset.image_vectors)


def captions_of(dataset: CaptionDataset) -> Captions:
    """The captions of a split, with all that is known of their images, and which these are."""
    images = [dataset.images.id(int(n)) for n in dataset.caption_image]
    known = metadata_table(_known(dataset), len(dataset.images))
    assert known is not None
    known = known.take(dataset.caption_image).append_column("image", pa.array(images))
    return Captions(dataset.captions, dataset.caption_ids, known, dataset.caption_vectors)


def _known(dataset: CaptionDataset) -> dict[str, list[object]]:
    """{column: value of each image}: its split, class, labels and metadata."""
    count = len(dataset.images)
    found: dict[str, list[object]] = {"split": [dataset.split] * count}
    if dataset.classes is not None:
        names = dataset.classes.names
        found["class"] = [names[n] for n in dataset.classes.values.tolist()]
    if dataset.labels is not None:
        marks, names = dataset.labels.values, dataset.labels.names
        found["labels"] = [[names[n] for n in np.flatnonzero(row)] for row in marks]
    for name in dict.fromkeys(name for row in dataset.metadata or () for name in row):
        found[name] = [row.get(name) for row in dataset.metadata or ()]
    return found


def _picked(values: Sequence[str | None] | None, places: Sequence[int]) -> list[str | None] | None:
    return None if values is None else [values[n] for n in places]
