"""Recall of the true top 10 in an ANN engine's shortlist, on embeddings of trained models.

`python -m studies.shortlists runs/aviary runs/aviary-pcme` draws 20,000 images of unseen species
with one caption each, searches for 300 of them, and writes the table of docs/science/ann.md.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch

from pcme import Gaussian, data, load
from pcme.embedding import Embedding, joined
from pcme.model import Model
from pcme.scores.base import Score
from pcme.scores.densities import DensityScore
from pcme.scores.lifts import DensityLift, DistanceLift, Lift
from studies.tables import DOCS, markdown, write_tables

DOCUMENT = DOCS / "science" / "ann.md"
SPECIES, QUERIES, FITTED = 1000, 300, 1000
LENGTHS = (10, 50, 100, 200, 400, 800)


class Scaled(Lift):
    """Means in units of the average σ of both sides, per dimension."""

    codes = "product"

    def __init__(self, items: Gaussian, queries: Gaussian) -> None:
        self.scale = (items.variance.mean(0) + queries.variance.mean(0)).rsqrt()

    def items(self, items: Embedding) -> np.ndarray:
        assert isinstance(items, Gaussian)
        return (items.mean * self.scale).numpy()

    queries = items


def embed_species(model: Model) -> tuple[Gaussian, Gaussian]:
    """Embed images and captions of unseen species."""
    split = data.create("aviary", test_species=SPECIES, captions_per_image=1).load("test")
    count = len(split.images)
    parts = [
        model.encode_images([split.images.load(n) for n in range(i, min(count, i + 512))]) for i in range(0, count, 512)
    ]
    images, captions = joined(parts), model.encode_captions(list(split.captions))
    assert isinstance(images, Gaussian)
    assert isinstance(captions, Gaussian)
    return images, captions


def lifts(score: Score, items: Gaussian, queries: Gaussian) -> Iterator[tuple[str, Lift]]:
    """Lifts to an engine's vectors, by name. They are fitted on `queries`, which are not those of the test."""
    width = 16 * -(-(items.dim + 1) // 16)
    yield "μ", DistanceLift(width, by_sigma=False)
    yield "[μ; √Σσ²]", DistanceLift(width)
    if isinstance(score, DensityScore):
        yield "μ in units of the average σ", Scaled(items, queries)
        yield ("density lift, fitted on 1,000 queries", DensityLift.fit(score.weights(items.dim), items, queries))
        yield "… fitted on 100", DensityLift.fit(score.weights(items.dim), items, queries[:100])
        yield ("… fitted on items in their place", DensityLift.fit(score.weights(items.dim), items, items[:FITTED]))


def recalls(lift: Lift, items: Gaussian, queries: Gaussian, best: np.ndarray) -> list[float]:
    """The share of the true top 10 that shortlists of LENGTHS hold."""
    vectors, query_vectors = lift.items(items).astype(np.float64), lift.queries(queries).astype(np.float64)
    distance = np.square(vectors).sum(1) - 2 * query_vectors @ vectors.T
    order = np.argsort(distance, 1)[:, : LENGTHS[-1]]
    return [float(np.mean([np.isin(b, o[:n]).mean() for b, o in zip(best, order, strict=True)])) for n in LENGTHS]


def measure(folder: Path) -> list[list[str]]:
    """Measure one model in both directions; return its rows of the table."""
    model = load(folder)
    score, (images, captions) = model.score(), embed_species(model)
    order = torch.randperm(len(captions), generator=torch.Generator().manual_seed(0))
    sides: list[tuple[str, Gaussian, Callable[[slice], Gaussian]]] = [
        ("text → image", images, lambda part: captions[order[part]]),
        ("image → text", captions, lambda part: images[order[part]]),
    ]
    rows = []
    for direction, items, draw in sides:
        queries, fitting_queries = draw(slice(QUERIES)), draw(slice(QUERIES, QUERIES + FITTED))
        best = score.topk(queries, items, k=10).ids.numpy()
        for name, lift in lifts(score, items, fitting_queries):
            shares = [f"{share:.3f}" for share in recalls(lift, items, queries, best)]
            rows.append([f"{model.recipe.method.kind}, {direction}", name, *shares])
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure the models given and write the table."""
    parser = argparse.ArgumentParser(prog="python -m studies.shortlists", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, help="folders of models trained on Aviary")
    runs = parser.parse_args().runs
    rows = [row for folder in runs for row in measure(folder)]
    table = markdown(["model", "vectors", *map(str, LENGTHS)], rows)
    write_tables(DOCUMENT, {"shortlists": table})


if __name__ == "__main__":
    main()
