"""MTEB: a model of ours as the Massive (Text and Image) Embedding Benchmark asks for one.

`MtebModel` is an encoder and a search in MTEB's protocols (mteb 2), so its retrieval tasks rank by the model's own
score, exactly, and not by the cosine of two vectors. MTEB knows arrays alone: an encoded Gaussian is its mean followed
by log σ, and `similarity` takes it apart again. Tasks that learn from the arrays (linear probes, clusters) want
`means=True`, which leaves log σ out. Queries and documents are images or texts; both at once are refused.

    model = MtebModel.load("runs/coco")  # pip install pcme[mteb]
    mteb.evaluate(model, mteb.get_tasks(tasks=["Flickr30kT2IRetrieval"]))
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32
from numpy.typing import ArrayLike
from torch import Tensor

from pcme import scores
from pcme.embedding import Embedding, Gaussian, Points, joined
from pcme.errors import ConfigError, DataError
from pcme.model import Model, load
from pcme.scores.base import Score

Batch = Mapping[str, Any]
"""Columns of some items: "image", or "text" with maybe "title" or "instruction"."""
Results = dict[str, dict[str, float]]
"""{id of a query: {id of a document: score}}."""

BATCH = 32


class MtebModel:
    """A model with MTEB's names; `means` gives and compares the means alone (points have nothing else)."""

    def __init__(self, model: Model, *, name: str = "pcme/local", means: bool = False) -> None:
        self.model, self.name = model.eval(), name
        self.points = not model.method.has_sigma
        self.means = means and not self.points
        self.score: Score = scores.create("mean") if self.means else model.score()
        self.ids: list[str] = []
        self.documents: Embedding | None = None

    @classmethod
    def load(cls, folder: str | Path, *, means: bool = False) -> "MtebModel":
        """The model of a run."""
        return cls(load(folder), name=f"pcme/{Path(folder).resolve().name}", means=means)

    def encode(self, inputs: Iterable[Batch], **_: object) -> Float32[np.ndarray, "n d"]:
        """One row for each item of all batches; MTEB's further arguments change nothing."""
        items = joined([self._embedded(batch) for batch in inputs])
        if isinstance(items, Points):
            return items.x.flatten(1).numpy()
        return (items.mean if self.means else torch.cat((items.mean, items.log_sigma), 1)).numpy()

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Tensor:
        """The model's score of all pairs of what `encode` gave."""
        return self.score(self._unpacked(embeddings1), self._unpacked(embeddings2))

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Tensor:
        """The same of the first with the first, the second with the second, and so on."""
        left, right = self._unpacked(embeddings1), self._unpacked(embeddings2)
        if len(left) != len(right):
            raise DataError(f"pairs: need two equal sides, got {len(left)} and {len(right)}.")
        return torch.cat([self.score(left[i], right[i])[0] for i in range(len(left))])

    def index(self, corpus: Any, **options: Any) -> None:  # noqa: ANN401 - a datasets.Dataset
        """Embed the documents."""
        self.ids = [str(ident) for ident in corpus["id"]]
        self.documents = self._all(corpus, options)

    def search(
        self,
        queries: Any,  # noqa: ANN401 - a datasets.Dataset
        *,
        top_k: int,
        top_ranked: Mapping[str, Sequence[str]] | None = None,
        **options: Any,  # noqa: ANN401 - MTEB's own
    ) -> Results:
        """The best documents of each query, or the order of those it is given in `top_ranked`."""
        if self.documents is None:
            raise DataError("documents: there are none to search in. Call index(corpus) first.")
        names, embedded = [str(ident) for ident in queries["id"]], self._all(queries, options)
        if top_ranked is None:
            return self._ranked(names, embedded, self.documents, self.ids, top_k)
        row_of = {ident: row for row, ident in enumerate(self.ids)}
        results: Results = {}
        for row, name in enumerate(names):
            ids = [str(ident) for ident in top_ranked[name]]
            results |= self._ranked([name], embedded[row], self.documents[[row_of[i] for i in ids]], ids, top_k)
        return results

    @property
    def mteb_model_meta(self) -> Any:  # noqa: ANN401 - mteb's ModelMeta
        """The metadata that MTEB stores beside a model's results."""
        try:
            meta = importlib.import_module("mteb.models.model_meta").ModelMeta
        except ImportError as error:
            raise ConfigError("MTEB: is not installed. Run pip install pcme[mteb].") from error
        count = sum(parameter.numel() for parameter in self.model.parameters())
        return meta(
            loader=None, name=self.name, revision="local", release_date=None, languages=None,
            n_parameters=count, memory_usage_mb=round(4 * count / 2**20), max_tokens=None,
            embed_dim=self.model.recipe.dim, license=None, open_weights=True,
            public_training_code=None, public_training_data=None, framework=["PyTorch"],
            similarity_fn_name=None, use_instructions=False, training_datasets=None,
            modalities=["image", "text"],
        )  # fmt: skip

    def _ranked(
        self, names: Sequence[str], queries: Embedding, documents: Embedding, ids: Sequence[str], top_k: int
    ) -> Results:
        """The best documents of each query."""
        ranking = self.score.topk(queries, documents, k=min(top_k, len(ids)))
        rows = zip(names, ranking.ids.tolist(), ranking.scores.tolist(), strict=True)
        return {name: {ids[i]: score for i, score in zip(best, values, strict=True)} for name, best, values in rows}

    def _all(self, items: Any, options: Mapping[str, Any]) -> Embedding:  # noqa: ANN401
        """Every item of a dataset, in batches."""
        size = (options.get("encode_kwargs") or {}).get("batch_size", BATCH)
        starts = range(0, len(items), size)
        parts = [self._embedded(items[start : start + size]) for start in starts]
        if not parts:
            raise DataError("items: MTEB's dataset is empty.")
        return joined(parts)

    def _embedded(self, batch: Batch) -> Embedding:
        images, texts = _given(batch, "image"), _texts(batch)
        if images is not None and texts is None:
            return self.model.encode_images([image.convert("RGB") for image in images])
        if texts is not None and images is None:
            return self.model.encode_captions(texts)
        raise ConfigError(
            f"items: must be images or texts, got the columns {sorted(batch)}. Choose tasks between images and texts."
        )

    def _unpacked(self, array: ArrayLike) -> Embedding:
        rows = torch.as_tensor(np.atleast_2d(np.asarray(array)), dtype=torch.float32)
        dim = self.model.recipe.dim
        if self.points or self.means:
            return Points(rows.view(len(rows), -1, dim))
        return Gaussian(rows[:, :dim], rows[:, dim:])


def _given(batch: Batch, column: str) -> Sequence[Any] | None:
    """A column, if it is there and holds anything."""
    values = batch.get(column)
    return None if values is None or all(value is None for value in values) else values


def _texts(batch: Batch) -> list[str] | None:
    """Texts as MTEB joins them: a document's title before it, a query's instruction behind it."""
    texts = _given(batch, "text")
    if texts is None:
        return None
    if not all(isinstance(text, str) for text in texts):
        raise ConfigError("texts: must be sentences, got conversations. Choose another task.")
    before, behind = (batch.get(column) or [""] * len(texts) for column in ("title", "instruction"))
    rows = zip(before, texts, behind, strict=True)
    return [" ".join(part.strip() for part in row if part and part.strip()) for row in rows]
