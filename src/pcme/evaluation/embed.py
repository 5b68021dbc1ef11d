"""Embed a split: every image once and every caption once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from pcme.core.progress import Progress, silent
from pcme.data.dataset import CaptionDataset
from pcme.data.loading.batches import FeatureRows, image_batches
from pcme.data.problems import Problems
from pcme.embedding import Embedding, joined
from pcme.errors import DataError
from pcme.model import Model


@dataclass(frozen=True)
class Embedded:
    """A split's embeddings, and the split without the items that could not be embedded."""

    dataset: CaptionDataset
    images: Embedding
    captions: Embedding


def embed(
    model: Model,
    dataset: CaptionDataset,
    problems: Problems,
    *,
    batch_size: int = 64,
    workers: int = 2,
    features: FeatureRows | None = None,
    progress: Progress = silent,
) -> Embedded:
    """Embed every image and caption once, onto the CPU; unusable images leave with their captions.

    `features` stand for pixels.
    """
    model.eval()
    stored = dataset.image_vectors if features is None else features
    if stored is None:
        source = image_batches(
            dataset.images, model.transform, batch_size=batch_size, problems=problems, workers=workers
        )
    else:
        source = _stored_batches(stored, len(dataset.images), batch_size)
    indices: list[Int64[np.ndarray, " b"]] = []
    parts: list[Embedding] = []
    with torch.no_grad():
        for rows, inputs in source:
            indices.append(rows)
            parts.append(model.embed_images(inputs).to("cpu"))
            progress("images", int(rows[-1]) + 1, len(dataset.images))
    if not parts:
        raise DataError(
            f"{dataset.where}: none of its {len(dataset.images)} images can be used. See `pcme data check`."
        )
    usable = np.concatenate(indices)
    if features is not None:
        for index in np.setdiff1d(np.arange(len(dataset.images)), usable).tolist():
            problems.add("image-unreadable", dataset.images.id(index), "has no features")
    part = dataset if len(usable) == len(dataset.images) else dataset.subset(usable)
    if part.caption_vectors is None:
        return Embedded(part, joined(parts), model.encode_captions(list(part.captions), progress=progress))
    batches = _stored_batches(part.caption_vectors, len(part.captions), batch_size)
    with torch.no_grad():
        captions = joined([model.embed_caption_vectors(vectors).to("cpu") for _, vectors in batches])
    return Embedded(part, joined(parts), captions)


def _stored_batches(
    stored: FeatureRows, count: int, size: int
) -> Iterator[tuple[Int64[np.ndarray, " b"], Float32[Tensor, "b s d"]]]:
    """(indices, vectors) of the items that have vectors, in order."""
    for start in range(0, count, size):
        indices = range(start, min(start + size, count))
        present = [(index, row) for index in indices if (row := stored.row(index)) is not None]
        if present:
            rows, vectors = zip(*present, strict=True)
            yield np.array(rows, np.int64), torch.stack(vectors)
