"""Subject: a model and a split of its data, loaded and embedded on first use."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int64

from pcme.data.dataset import CaptionDataset
from pcme.embedding import Embedding, Gaussian
from pcme.errors import DataError
from pcme.evaluation.embed import Embedded
from pcme.evaluation.protocols import Protocol, protocol
from pcme.model import Model
from pcme.retrieval.matches import Matches


@dataclass(frozen=True, eq=False)
class Subject:
    """A model and a split, which is loaded and embedded once, when it is first asked for."""

    model: Model
    loader: Callable[[], CaptionDataset]
    embedder: Callable[[CaptionDataset], Embedded]

    @classmethod
    def of(cls, model: Model, embedded: Embedded) -> "Subject":
        """Return the subject of a split that is embedded already."""
        return cls(model, lambda: embedded.dataset, lambda _: embedded)

    @cached_property
    def dataset(self) -> CaptionDataset:
        """The split as it was loaded."""
        return self.loader()

    @cached_property
    def embedded(self) -> Embedded:
        """The split's embeddings; its dataset lacks the items that could not be embedded."""
        return self.embedder(self.dataset)

    @cached_property
    def protocol(self) -> Protocol:
        """The ground truth of the embedded split, in both directions."""
        return protocol(self.embedded.dataset)

    @cached_property
    def matches(self) -> Matches:
        """τ with captions as queries."""
        return self.embedded.dataset.matches()

    @property
    def images(self) -> Gaussian:
        """The image embeddings of a model that has a σ."""
        return require_sigma(self.embedded.images)

    @property
    def captions(self) -> Gaussian:
        """The caption embeddings of a model that has a σ."""
        return require_sigma(self.embedded.captions)

    @property
    def has_sigma(self) -> bool:
        """Whether the model's embeddings are Gaussians."""
        return self.model.method.has_sigma

    @cached_property
    def clusters(self) -> Int64[np.ndarray, " n"]:
        """The class number of each image; its own number where there are no classes."""
        return self.embedded.dataset.clusters

    @property
    def caption_clusters(self) -> Int64[np.ndarray, " m"]:
        """The cluster of the image that each caption was written for."""
        return np.asarray(self.clusters[self.embedded.dataset.caption_image])


def require_sigma(items: Embedding) -> Gaussian:
    """The items as Gaussians, or an error."""
    if not isinstance(items, Gaussian):
        raise DataError("points have no sigma. Use a model with one, such as of method pcme.")
    return items
