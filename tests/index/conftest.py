"""Indexes that several files search and none changes; a process that forks writers."""

import pytest

from pcme import SearchIndex
from pcme.uncertainty.calibrate import calibrate
from tests.index.forking import Forker
from tests.index.worlds import split, untrained


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """(index of images and captions, model, split) with the default method."""
    folder = tmp_path_factory.mktemp("world")
    model, dataset = untrained(), split()
    model.save(folder / "model")
    index = SearchIndex.create(folder / "index", folder / "model")
    index.add(dataset)
    index.add(dataset, kind="caption")
    return index, model, dataset


@pytest.fixture(scope="session")
def calibrated(tmp_path_factory):
    """(index of images, confidence) of a model that was calibrated."""
    folder = tmp_path_factory.mktemp("calibrated")
    untrained().save(folder / "model")
    found = calibrate(folder / "model", split(images=40))
    found.confidence.save(folder / "model")
    index = SearchIndex.create(folder / "index", folder / "model")
    index.add(split(images=40))
    return index, found.confidence


@pytest.fixture
def index(tmp_path):
    """An empty index of an untrained model."""
    return SearchIndex.create(tmp_path / "index", untrained())


@pytest.fixture(scope="session")
def forker():
    """A process that forks a writer on demand."""
    process = Forker()
    yield process
    process.close()
