"""Embedding a split: unusable images leave with their captions; features stand for pixels."""

import pytest
import torch

from pcme import Gaussian
from pcme.data.images.transforms import normalise
from pcme.data.problems import Problems
from pcme.errors import DataError
from pcme.evaluation import embed
from tests.helpers import photos
from tests.models import build


def test_images_that_cannot_be_used_leave_with_their_captions(tmp_path):
    data = photos(tmp_path, count=5, per_image=2)
    (tmp_path / "3.jpg").write_bytes(b"")
    model, problems = build(captions=data.captions), Problems()
    found = embed(model, data, problems)
    assert problems.counts == {"image-empty": 1}
    assert len(found.images) == len(found.dataset.images) == 4
    assert len(found.captions) == len(found.dataset.captions) == 8
    assert isinstance(found.images, Gaussian)
    whole = embed(model, data.subset([0, 1, 2, 4]), Problems())
    assert torch.allclose(found.images.mean, whole.images.mean, atol=1e-6)
    with pytest.raises(DataError, match="photos/train: none of its 1 images can be used"):
        embed(model, data.subset([3]), Problems())


class Rows:
    """Features in which the third image is missing."""

    def __init__(self, model, dataset):
        self.model, self.dataset = model, dataset

    def row(self, index):
        network = self.model.images.network
        pixels = self.model.transform(self.dataset.images.load(index))[None]
        with torch.no_grad():
            return None if index == 2 else network(normalise(pixels, network.mean, network.std))[0]


def test_features_take_the_place_of_pixels(tmp_path):
    dataset = photos(tmp_path)
    model, problems = build(captions=dataset.captions), Problems()
    found = embed(model, dataset, problems, features=Rows(model, dataset))
    whole = embed(model, dataset, Problems())
    kept = [i for i in range(len(dataset.images)) if i != 2]
    assert torch.allclose(found.images.mean, whole.images.mean[kept], atol=1e-5)
    assert len(found.dataset.images) == len(dataset.images) - 1
    assert problems.counts == {"image-unreadable": 1}
