"""The two halves share no class, and no image; every caption goes with its image."""

import numpy as np
import pytest
import torch

from pcme import Gaussian, scores
from pcme.data.aviary.dataset import Aviary
from pcme.errors import ConfigError, DataError
from pcme.evaluation import Embedded
from pcme.uncertainty import halves
from pcme.uncertainty.evaluation_set import log_probabilities
from tests.evaluation.splits import toy
from tests.uncertainty.worlds import part


def numbered(count):
    """Items that say in their mean which they are."""
    return Gaussian(torch.arange(float(count))[:, None], torch.zeros(count, 1))


def numbers(items):
    return items.mean[:, 0].long().numpy()


def divided(dataset):
    """The halves of a split whose items are numbered."""
    return halves(Embedded(dataset, numbered(len(dataset.images)), numbered(len(dataset.captions))))


@pytest.mark.parametrize("classes", [0, 3])
def test_images_are_divided_and_captions_follow_where_classes_are_few(classes):
    dataset = toy(10, 2, classes=classes)
    first, second = divided(dataset)
    shown = [numbers(half.images) for half in (first, second)]
    assert sorted(np.concatenate(shown).tolist()) == list(range(10))
    assert [len(part) for part in shown] == [5, 5]
    assert np.array_equal(numbers(divided(dataset)[0].images), shown[0])  # always the same
    for half, images in zip((first, second), shown, strict=True):
        assert set(dataset.caption_image[numbers(half.captions)]) == set(images)
        assert half.matches.counts.tolist() == [1] * 10


def test_classes_stay_together():
    dataset = Aviary(val_species=7, val_images=3, captions_per_image=2).load("val")
    first, second = divided(dataset)
    species = [set(dataset.classes.values[numbers(half.images)]) for half in (first, second)]
    assert [len(names) for names in species] == [3, 4]
    assert not species[0] & species[1]
    for half in (first, second):
        rows, columns = numbers(half.captions), numbers(half.images)
        assert np.array_equal(half.matches.dense(), dataset.matches().dense()[rows][:, columns])


def test_a_single_image_cannot_be_divided():
    with pytest.raises(DataError, match="two images"):
        divided(toy(1, 2))


def test_a_score_that_is_no_probability_is_refused():
    with pytest.raises(ConfigError, match="match probability"):
        next(log_probabilities(scores.create("mean"), part()))
