"""Indexes that several files search and none changes; a process that forks writers."""

import pytest

from pcme import SearchIndex
from pcme.uncertainty.calibrate import calibrate
from tests.index.worlds import drawn, split, untrained


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
    folder, dataset = tmp_path_factory.mktemp("calibrated"), split(images=40)
    untrained().save(folder / "model")
    confidence = calibrate(folder / "model", dataset).confidence
    confidence.save(folder / "model")
    index = SearchIndex.create(folder / "index", folder / "model")
    index.add(dataset)
    return index, confidence


@pytest.fixture
def index(tmp_path):
    """An empty index of an untrained model."""
    return SearchIndex.create(tmp_path / "index", untrained())


@pytest.fixture
def fifty(tmp_path):
    """(index, the Gaussians in it), to be changed."""
    return drawn(tmp_path / "index")


@pytest.fixture(scope="session")
def unchanged(tmp_path_factory):
    """(index, the Gaussians in it) for what is refused; it stays as it was."""
    index, items = drawn(tmp_path_factory.mktemp("unchanged") / "index")
    yield index, items
    assert (len(index), index.describe().columns, index.verify().ok) == (50, {"number": "int64"}, True)
