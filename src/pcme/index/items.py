"""Sources: the items that `SearchIndex.add` takes, with ids known at once, embedded on demand.

Items that are in an index already are never encoded again, so that calling an interrupted `add` again resumes it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from pcme.data.arrays import VectorFile
from pcme.data.dataset import CaptionDataset
from pcme.data.images.decoding import ImageError
from pcme.data.loading.batches import image_batches
from pcme.data.problems import Problems
from pcme.data.records import IMAGE_SUFFIXES
from pcme.data.sources import Files, ImageSource, Subset
from pcme.embedding import Embedding, joined
from pcme.errors import DataError
from pcme.index.encoder import Encoder, ImageLike
from pcme.index.rows import Kind, Origin, Rows, checked_ids, metadata_table, origins_of, take


class Source(ABC):
    """Items with ids; `indices` count them from 0."""

    ids: Sequence[str]
    metadata: pa.Table | None = None
    chunk: int
    """Items that are embedded and written at once."""
    model: str | None = None
    """The digest of the model that made these embeddings, where that is known."""

    @abstractmethod
    def rows(self, indices: Sequence[int], encoder: Encoder, problems: Problems) -> Rows | None:
        """Embed these items; unusable ones are reported and left out."""

    @abstractmethod
    def origins(self, indices: Sequence[int]) -> list[Origin]:
        """The origins of these items, known before they are embedded."""

    def _rows(self, indices: Sequence[int], embedding: Embedding) -> Rows:
        metadata = None if self.metadata is None else self.metadata.take(list(indices))
        return Rows([self.ids[n] for n in indices], self.origins(indices), embedding, metadata)


@dataclass(frozen=True, eq=False)
class Embeddings(Source):
    """Embeddings that exist already."""

    ids: Sequence[str]
    embedding: Embedding
    kind: Kind = "image"
    paths: Sequence[str | None] | None = None
    texts: Sequence[str | None] | None = None
    metadata: pa.Table | None = None
    chunk: int = 16384

    def __post_init__(self) -> None:
        if len(self.ids) != len(self.embedding):
            raise DataError(f"ids: must be one per embedding ({len(self.embedding):,}), got {len(self.ids):,}.")

    def rows(self, indices: Sequence[int], encoder: Encoder, problems: Problems) -> Rows:
        """The rows; nothing is computed."""
        return self._rows(indices, self.embedding[torch.tensor(indices)])

    def origins(self, indices: Sequence[int]) -> list[Origin]:
        """The paths and texts of the items, where they have any."""
        return origins_of([self.kind] * len(indices), take(self.paths, indices), take(self.texts, indices))


@dataclass(frozen=True, eq=False)
class Images(Source):
    """Images to be decoded and encoded; `vectors` replace pixels where they are given."""

    images: ImageSource
    ids: Sequence[str]
    metadata: pa.Table | None = None
    vectors: VectorFile | None = None
    chunk: int = 512

    @torch.no_grad()
    def rows(self, indices: Sequence[int], encoder: Encoder, problems: Problems) -> Rows | None:
        """Decode in threads, encode in batches."""
        if self.vectors is not None:
            return self._rows(indices, encoder.model.embed_images(_stacked(self.vectors, indices)))
        subset = Subset(self.images, np.asarray(indices, np.int64))
        usable, parts = [], []
        for rows, pixels in image_batches(subset, encoder.model.transform, batch_size=64, problems=problems):
            usable += [indices[n] for n in rows.tolist()]
            parts.append(encoder.model.embed_images(pixels))
        return self._rows(usable, joined(parts)) if usable else None

    def origins(self, indices: Sequence[int]) -> list[Origin]:
        """The files, resolved."""
        paths = [self.images.path(n) for n in indices]
        return [Origin("image", None if path is None else str(path.resolve())) for path in paths]


@dataclass(frozen=True, eq=False)
class Captions(Source):
    """Texts to be encoded; `vectors` replace words where they are given."""

    texts: Sequence[str]
    ids: Sequence[str]
    metadata: pa.Table | None = None
    vectors: VectorFile | None = None
    chunk: int = 2048

    @torch.no_grad()
    def rows(self, indices: Sequence[int], encoder: Encoder, problems: Problems) -> Rows | None:
        """Encode in batches; a text without words is reported and left out."""
        if self.vectors is not None:
            return self._rows(indices, encoder.model.embed_caption_vectors(_stacked(self.vectors, indices)))
        usable = []
        for n in indices:
            if encoder.model.tokeniser.split(self.texts[n]):
                usable.append(n)
            else:
                problems.add("caption-empty", self.ids[n], f"no words in {self.texts[n]!r:.40}")
        return self._rows(usable, encoder.model.encode_captions([self.texts[n] for n in usable])) if usable else None

    def origins(self, indices: Sequence[int]) -> list[Origin]:
        """The texts."""
        return [Origin("caption", text=self.texts[n]) for n in indices]


@dataclass(frozen=True, eq=False)
class ImageList(ImageSource):
    """Images given one by one: files, or images in memory."""

    images: Sequence[ImageLike]

    def __len__(self) -> int:
        return len(self.images)

    def id(self, index: int) -> str:
        """The file's name, or the number."""
        path = self.path(index)
        return f"image {index}" if path is None else str(path)

    def load(self, index: int) -> Image.Image:
        """The image, decoded."""
        image = self.images[index]
        if isinstance(image, Image.Image):
            return image.convert("RGB")
        path = Path(image)
        if path.is_dir():
            raise ImageError("image-unreadable", "a folder")
        return Files(path.parent, [path.name]).load(0)

    def stamp(self, index: int) -> str:
        """The id: nothing is cached."""
        return self.id(index)

    def path(self, index: int) -> Path | None:
        """The file."""
        image = self.images[index]
        return None if isinstance(image, Image.Image) else Path(image)


def chunks(sources: Sequence[Source]) -> Iterator[tuple[Source, range]]:
    """The sources and indices of their items, as many at once as are written at once."""
    for source in sources:
        total = len(source.ids)
        yield from ((source, range(n, min(total, n + source.chunk))) for n in range(0, total, source.chunk))


def require_distinct(sources: Sequence[Source]) -> None:
    """Refuse two items of one id. Two sources may give the same item."""
    owners: dict[str, Source] = {}
    for source in sources:
        for index, name in enumerate(checked_ids(source.ids)):
            owner = owners.setdefault(name, source)
            if owner is not source:
                (first,) = owner.origins([owner.ids.index(name)])
                (second,) = source.origins([index])
                if not first.agrees(second):
                    both = f"{first} and {second}"
                    raise DataError(f'duplicate id "{name}": {both}. Add a folder that holds both, or give other ids.')


def images_below(folder: Path, part: str = "") -> Images:
    """All images in a folder, or in a part of it, with ids like photos/a.jpg; not hidden ones."""
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in (folder / part).rglob("*")
        if path.suffix.lower() in IMAGE_SUFFIXES
        and path.is_file()
        and not any(name.startswith(".") for name in path.relative_to(folder).parts)
    )
    if not names:
        raise DataError(f"{folder / part}: no images. Expected {', '.join(IMAGE_SUFFIXES)}.")
    return Images(Files(folder, names), [f"{folder.resolve().name}/{name}" for name in names])


def images_of(dataset: CaptionDataset) -> Images:
    """The images of a split, with their metadata."""
    ids = [dataset.images.id(n) for n in range(len(dataset.images))]
    return Images(dataset.images, ids, _metadata(dataset), dataset.image_vectors)


def captions_of(dataset: CaptionDataset) -> Captions:
    """The captions of a split, with the metadata and the ids of their images."""
    images = [dataset.images.id(int(n)) for n in dataset.caption_image]
    metadata = _metadata(dataset).take(dataset.caption_image).append_column("image", pa.array(images))
    return Captions(dataset.captions, dataset.caption_ids, metadata, dataset.caption_vectors)


def _metadata(dataset: CaptionDataset) -> pa.Table:
    """One row per image: split, class, labels and metadata."""
    columns: dict[str, list[object]] = {"split": [dataset.split] * len(dataset.images)}
    if dataset.classes is not None:
        columns["class"] = [dataset.classes.names[n] for n in dataset.classes.values.tolist()]
    if dataset.labels is not None:
        names = dataset.labels.names
        columns["labels"] = [[names[n] for n in np.flatnonzero(row)] for row in dataset.labels.values]
    for name in dict.fromkeys(name for row in dataset.metadata or () for name in row):
        columns[name] = [row.get(name) for row in dataset.metadata or ()]
    table = metadata_table(columns, len(dataset.images))
    assert table is not None  # it has the split
    return table


def _stacked(vectors: VectorFile, indices: Sequence[int]) -> Float[Tensor, "b s d"]:
    return torch.stack([vectors.row(n) for n in indices])
