"""What the tests of the index share: models that have learned nothing, indexes of drawn items."""

import numpy as np
import torch

from pcme import Gaussian, SearchIndex, data, recipes
from pcme.data.text.tokens import Vocab
from pcme.index.settings import Settings
from pcme.model import Model
from tests.helpers import random_gaussians

WORDS = ["a small red bird with a blue wing", "a large green bird on a branch", "sky and water"]


def untrained(method="pcme-overlap", *, seed=0, dim=16):
    """A model of the smallest recipe, with random weights."""
    recipe = recipes.get("aviary-tiny").changed([f'method={{"kind":"{method}"}}', f"dim={dim}"])
    vocab = Vocab.build(WORDS)
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(len(vocab), recipe.words.dim, generator=generator)
    model = Model(recipe.changed([f"seed={seed}"]), vocab, vectors)
    with torch.no_grad():  # what is untrained makes nearly the same of everything
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.mul_(3)
    return model.eval()


def split(images=24, captions=3):
    """A small test split of Aviary."""
    source = data.create(
        "aviary",
        pixels=16,
        test_species=-(-images // 4),
        test_images=4,
        captions_per_image=captions,
    )
    return source.load("test").subset(np.arange(images))


def settings(score="csd", dim=4, spread="diagonal", **params):
    """Settings of an index without a model."""
    from pcme import scores

    return Settings(dim, spread, scores.create(score, **params))


def names(count, start=0):
    return [f"{n:05d}" for n in range(start, start + count)]


def drawn(path, count=50, *, dim=4, score="csd", seed=0, **params):
    """(index, Gaussians) with ids 00000, 00001, ... and a column `number`."""
    from pcme import scores

    items = random_gaussians(count, dim, seed=seed, log_sigma=-1.5)
    index = SearchIndex.create(
        path, dim=dim, score=scores.create(score, **params), spread="diagonal"
    )
    if count:
        index.add(items, {"number": list(range(count))}, ids=names(count))
    return index, items


def shuffled(items: Gaussian, seed=0):
    order = torch.randperm(len(items), generator=torch.Generator().manual_seed(seed))
    return order.tolist(), items[order]
