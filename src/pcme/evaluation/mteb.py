"""MTEB: a model of ours as the Massive (Text and Image) Embedding Benchmark asks for one.

`MtebModel` is an encoder and a search in MTEB's protocols (mteb 2), so its retrieval tasks rank by
the model's own score, exactly, and not by the cosine of two vectors. MTEB knows arrays alone: an
encoded Gaussian is its mean followed by log σ, and `similarity` takes it apart again. Tasks that
learn from the arrays (linear probes, clusters) want `means=True`, which leaves log σ out.

    import mteb from pcme.evaluation.mteb import MtebModel

    model = MtebModel.load("runs/coco") mteb.evaluate(model, mteb.get_tasks(tasks=["Flickr30kT2IRetrieval"]))

`pip install pcme[mteb]`. Queries and documents are images or texts; both at once are refused.
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
    """A model with MTEB's names; see the module.

    `means` gives and compares the means alone; points have nothing else.
    """

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
        return self._packed(joined([self._embedded(batch) for batch in inputs]))

    def similarity(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Tensor:
        """The model's score of all pairs of what `encode` gave."""
        return self.score(self._unpacked(embeddings1), self._unpacked(embeddings2))

    def similarity_pairwise(self, embeddings1: ArrayLike, embeddings2: ArrayLike) -> Tensor:
        """The same of the first with the first, the second with the second, and so on."""
        left, right = self._unpacked(embeddings1), self._unpacked(embeddings2)
        if len(left) != len(right):
            raise DataError(f"pairs: need two equal sides, got {len(left)} and {len(right)}.")
        pairs = [self.score(left[i], right[i])[0] for i in range(len(left))]
        return torch.cat(pairs)

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
        names = [str(ident) for ident in queries["id"]]
        asked = self._all(queries, options)
        if top_ranked is not None:
            return self._reranked(names, asked, self.documents, top_ranked, top_k)
        ranking = self.score.topk(asked, self.documents, k=min(top_k, len(self.ids)))
        rows = zip(names, ranking.ids.tolist(), ranking.scores.tolist(), strict=True)
        return {name: {self.ids[i]: value for i, value in zip(ids, values, strict=True)} for name, ids, values in rows}

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

    def _reranked(
        self,
        names: Sequence[str],
        asked: Embedding,
        documents: Embedding,
        candidates: Mapping[str, Sequence[str]],
        top_k: int,
    ) -> Results:
        place = {ident: i for i, ident in enumerate(self.ids)}
        results: Results = {}
        for i, name in enumerate(names):
            given = [place[str(ident)] for ident in candidates[name]]
            ranking = self.score.topk(asked[i], documents[given], k=min(top_k, len(given)))
            pairs = zip(ranking.ids[0].tolist(), ranking.scores[0].tolist(), strict=True)
            results[name] = {self.ids[given[j]]: value for j, value in pairs}
        return results

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
        if (images is None) == (texts is None):
            raise ConfigError(
                f"items: must be images or texts, got the columns {sorted(batch)}. Choose tasks "
                "between images and texts."
            )
        if images is not None:
            return self.model.encode_images([image.convert("RGB") for image in images])
        assert texts is not None
        return self.model.encode_captions(texts)

    def _packed(self, items: Embedding) -> Float32[np.ndarray, "n d"]:
        if isinstance(items, Points):
            return items.x.flatten(1).numpy()
        return (items.mean if self.means else torch.cat((items.mean, items.log_sigma), 1)).numpy()

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
    before = batch.get("title") or [""] * len(texts)
    behind = batch.get("instruction") or [""] * len(texts)
    rows = zip(before, texts, behind, strict=True)
    return [" ".join(part.strip() for part in row if part and part.strip()) for row in rows]
