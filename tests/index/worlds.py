"""What the tests of the index share: models that have learned nothing, indexes of drawn items."""

import numpy as np

from pcme import SearchIndex, data, scores
from pcme.index.settings import Settings
from pcme.index.vector_files import vector_sources
from tests import models
from tests.helpers import picture, random_gaussians


def untrained(method="pcme-overlap", *, seed=0, dim=16):
    """A model of the smallest recipe that has learned nothing; not to be changed."""
    changes = (f'method={{"kind":"{method}"}}', f"dim={dim}", f"seed={seed}")
    return models.untrained(*changes, seed=seed, spread=3.0)


def split(images=24, captions=3):
    """A small test split of Aviary."""
    source = data.create("aviary", pixels=16, test_species=-(-images // 4), test_images=4, captions_per_image=captions)
    return source.load("test").subset(np.arange(images))


def image_ids(dataset):
    return [dataset.images.id(n) for n in range(len(dataset.images))]


def settings(score="csd", dim=4, spread="diagonal", **params):
    """Settings of an index without a model."""
    return Settings(dim, spread, scores.create(score, **params))


def names(count, start=0):
    return [f"{n:05d}" for n in range(start, start + count)]


def drawn(path, count=50, *, dim=4, score="csd", seed=0, **params):
    """(index, Gaussians) with ids 00000, 00001, ... and a column `number`."""
    items = random_gaussians(count, dim, seed=seed, log_sigma=-1.5)
    index = SearchIndex.create(path, dim=dim, score=scores.create(score, **params), spread="diagonal")
    if count:
        index.add(items, {"number": list(range(count))}, ids=names(count))
    return index, items


def filled(path, folder, **options):
    """An index of all vectors in a file or folder."""
    index = SearchIndex.create(path, dim=6, **options)
    for source in vector_sources(folder):
        index.add(source)
    return index


def folder_of_images(path, *names):
    """A folder of small images."""
    for n, name in enumerate(names):
        picture(path / name, colour=(40 * n, 90, 200))
    return path
