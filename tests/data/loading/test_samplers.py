"""Samplers: every pair its turn, one per class, and the same again from the same seed."""

from collections import Counter

import numpy as np
import pytest

from pcme.data.dataset import CaptionDataset, NamedValues
from pcme.data.loading.samplers import AFRESH, OnePerClass, ShuffledPairs
from pcme.data.sources import Files
from pcme.errors import ConfigError, DataError


class Writer:
    def write(self, facts, generator):
        return "a bird"

    def read(self, words):
        return np.array([-1])


def dataset(sizes=(4, 2, 3), per_image=5, *, classes=True, writer=None):
    """Classes of these many images, five captions each."""
    values = np.repeat(np.arange(len(sizes)), sizes)
    images = Files(None, [f"{i}.jpg" for i in range(len(values))])
    owner = np.repeat(np.arange(len(values)), per_image)
    named = NamedValues(values, tuple(map(str, range(len(sizes))))) if classes else None
    made = CaptionDataset.by_image("toy", "train", images, [f"c{i}" for i in range(len(owner))], owner, classes=named)
    object.__setattr__(made, "writer", writer)
    return made


def captions(batches):
    return [caption for batch in batches for _, caption in batch.tolist()]


@pytest.mark.parametrize("drop_last", [False, True])
def test_every_caption_comes_once_an_epoch_with_its_image(drop_last):
    data = dataset()
    sampler = ShuffledPairs(data, 7, seed=0, drop_last=drop_last)
    batches = sampler.epoch(0)
    assert len(batches) == len(sampler) == (6 if drop_last else 7)
    assert [len(batch) for batch in batches] == [7] * 6 + ([] if drop_last else [3])
    seen = captions(batches)
    assert len(set(seen)) == len(seen) == (42 if drop_last else 45)
    for batch in batches:
        assert np.array_equal(data.caption_image[batch[:, 1]], batch[:, 0])


@pytest.mark.parametrize("make", [lambda seed: ShuffledPairs(dataset(), 7, seed=seed),
                                  lambda seed: OnePerClass(dataset(), seed=seed)])  # fmt: skip
def test_an_epoch_is_a_function_of_seed_and_number(make):
    first = captions(make(0).epoch(3))
    assert captions(make(0).epoch(3)) == first
    assert captions(make(0).epoch(4)) != first
    assert captions(make(1).epoch(3)) != first


def test_new_captions_are_asked_for_once_an_image():
    batches = ShuffledPairs(dataset(writer=Writer()), 4, seed=0, afresh=True).epoch(0)
    pairs = np.concatenate(batches)
    assert sorted(pairs[:, 0].tolist()) == list(range(9))
    assert set(pairs[:, 1].tolist()) == {AFRESH}


@pytest.mark.parametrize("cls", [lambda d: ShuffledPairs(d, 4, seed=0, afresh=True),
                                 lambda d: OnePerClass(d, seed=0, afresh=True)])  # fmt: skip
def test_only_a_drawn_dataset_writes_new_captions(cls):
    with pytest.raises(ConfigError, match="cannot write new captions"):
        cls(dataset())


@pytest.mark.parametrize("size", [0, 46])
def test_a_batch_size_that_does_not_fit_is_refused(size):
    with pytest.raises(ConfigError, match="from 1 to 45"):
        ShuffledPairs(dataset(), size, seed=0)


def test_each_batch_has_one_pair_of_each_class():
    data = dataset()
    sampler = OnePerClass(data, seed=0)
    batches = sampler.epoch(0)
    assert len(batches) == len(sampler) == 45 // 3
    for batch in batches:
        assert sorted(data.classes.values[batch[:, 0]].tolist()) == [0, 1, 2]
        assert np.array_equal(data.caption_image[batch[:, 1]], batch[:, 0])


def test_the_order_of_the_classes_in_a_batch_is_random():
    data = dataset()
    orders = {tuple(data.classes.values[batch[:, 0]].tolist()) for batch in OnePerClass(data, 0).epoch(0)}
    assert len(orders) > 1


def test_a_class_uses_all_its_pairs_before_any_again():
    data = dataset()
    pairs = np.concatenate(OnePerClass(data, seed=0).epoch(0))
    classes = data.classes.values[pairs[:, 0]]
    for label, size in enumerate((20, 10, 15)):
        counts = Counter(pairs[classes == label, 1].tolist())
        assert max(counts.values()) - min(counts.get(c, 0) for c in counts) <= 1
        assert len(counts) == min(size, 15)


def test_fewer_classes_than_there_are_make_a_batch():
    data = dataset(sizes=(3,) * 7)
    sampler = OnePerClass(data, seed=0, classes_per_batch=3)
    used = Counter()
    for batch in sampler.epoch(0):
        labels = data.classes.values[batch[:, 0]].tolist()
        assert len(set(labels)) == len(labels) == 3
        used.update(labels)
    assert len(used) == 7
    assert len(sampler) == 105 // 3


@pytest.mark.parametrize("count", [0, 4])
def test_a_number_of_classes_that_does_not_fit_is_refused(count):
    with pytest.raises(ConfigError, match="from 1 to 3"):
        OnePerClass(dataset(), seed=0, classes_per_batch=count)


def test_classes_are_needed():
    with pytest.raises(DataError, match="no classes"):
        OnePerClass(dataset(classes=False), seed=0)


def test_classes_without_images_are_no_trouble():
    data = dataset()
    part = data.subset([0, 1, 2, 3, 6, 7, 8])  # the middle class is gone
    for batch in OnePerClass(part, seed=0).epoch(0):
        assert sorted(part.classes.values[batch[:, 0]].tolist()) == [0, 2]
