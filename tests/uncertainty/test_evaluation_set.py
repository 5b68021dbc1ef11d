"""The two halves share no class, and no image; every caption goes with its image."""

import numpy as np
import pytest
import torch

from pcme import Gaussian, scores
from pcme.data.aviary.dataset import Aviary
from pcme.errors import ConfigError, DataError
from pcme.uncertainty import halves, whole
from pcme.uncertainty.evaluation_set import log_probabilities
from tests.evaluation.splits import embeddings, toy
from tests.uncertainty.worlds import SCORE, part


def numbered(count):
    """Items that say in their mean which they are."""
    return Gaussian(torch.arange(float(count))[:, None], torch.zeros(count, 1))


def numbers(items):
    return items.mean[:, 0].long().numpy()


@pytest.mark.parametrize("classes", [0, 3])
def test_images_are_divided_and_captions_follow_where_classes_are_few(classes):
    dataset = toy(10, 2, classes=classes)
    first, second = halves(dataset, numbered(20), numbered(10))
    shown = [numbers(half.images) for half in (first, second)]
    assert sorted(np.concatenate(shown).tolist()) == list(range(10))
    assert [len(part) for part in shown] == [5, 5]
    for half, images in zip((first, second), shown, strict=True):
        assert set(dataset.caption_image[numbers(half.captions)]) == set(images)
        assert half.matches.counts.tolist() == [1] * 10


def test_classes_stay_together():
    dataset = Aviary(val_species=7, val_images=3, captions_per_image=2).load("val")
    first, second = halves(dataset, numbered(42), numbered(21))
    species = [set(dataset.classes.values[numbers(half.images)]) for half in (first, second)]
    assert [len(found) for found in species] == [3, 4]
    assert not species[0] & species[1]
    for half in (first, second):
        rows, columns = numbers(half.captions), numbers(half.images)
        assert np.array_equal(half.matches.dense(), dataset.matches().dense()[rows][:, columns])


def test_the_halves_are_always_the_same():
    dataset = toy(10, 2)
    again = [numbers(halves(dataset, numbered(20), numbered(10))[0].images) for _ in range(2)]
    assert np.array_equal(*again)


def test_the_whole_is_the_split():
    dataset = toy(6, 2)
    images, captions = embeddings(dataset)
    everything = whole(dataset, captions, images)
    assert everything.where == "toy/test"
    assert everything.matches == dataset.matches()


def test_a_single_image_cannot_be_divided():
    with pytest.raises(DataError, match="two images"):
        halves(toy(1, 2), numbered(2), numbered(1))


def test_pairs_come_with_their_truth():
    some = part(captions=7, images=5)
    blocks = list(log_probabilities(SCORE, some))
    log_p, truth = (np.concatenate([block[i] for block in blocks]) for i in (1, 2))
    np.testing.assert_allclose(log_p, SCORE(some.captions, some.images).numpy())
    assert np.array_equal(truth, some.matches.dense())


def test_a_score_that_is_no_probability_is_refused():
    with pytest.raises(ConfigError, match="match probability"):
        next(log_probabilities(scores.create("mean"), part()))
