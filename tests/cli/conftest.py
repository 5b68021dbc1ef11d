"""Folders of models that have learned nothing, for every verb: to be read, not changed."""

import pytest

from tests.analysis.subjects import MEANS_ONLY
from tests.evaluation import models
from tests.helpers import picture
from tests.index import worlds


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    """A model with a σ, whose test split has 12 images and 48 captions."""
    return models.untrained(tmp_path_factory.mktemp("cli") / "run")


@pytest.fixture(scope="session")
def means_only(tmp_path_factory):
    """The same without σ."""
    return models.untrained(tmp_path_factory.mktemp("cli") / "means", MEANS_ONLY)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A model of 16 dimensions whose embeddings differ, for indexes."""
    folder = tmp_path_factory.mktemp("cli") / "model"
    worlds.untrained().save(folder)
    return folder


@pytest.fixture
def photos(tmp_path):
    for n, name in enumerate(("a.png", "b.png", "deep/c.png")):
        picture(tmp_path / "photos" / name, colour=(60 * n, 90, 200))
    return tmp_path / "photos"
