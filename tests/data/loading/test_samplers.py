from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pcme.core.random import numpy_stream
from pcme.data.aviary.dataset import Writer
from pcme.data.dataset import CaptionDataset, NamedValues
from pcme.data.loading.samplers import AFRESH, OnePerClass, ShuffledPairs
from pcme.data.sources import Files
from pcme.errors import ConfigError, DataError


def dataset(sizes=(4, 2, 3), per_image=5, *, classes=True, writer=None):
    """Classes of these many images, five captions each."""
    values = np.repeat(np.arange(len(sizes)), sizes)
    images = Files(Path(), [f"{i}.jpg" for i in range(len(values))])
    owner = np.repeat(np.arange(len(values)), per_image)
    named = NamedValues(values, tuple(map(str, range(len(sizes))))) if classes else None
    made = CaptionDataset.by_image("toy", "train", images, [f"c{i}" for i in range(len(owner))], owner, classes=named)
    return replace(made, writer=writer)


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


@pytest.mark.parametrize("make", [partial(ShuffledPairs, dataset(), 7), partial(OnePerClass, dataset())])
def test_an_epoch_is_a_function_of_seed_and_number(make):
    orders = [[c for c in captions(make(seed).epoch(n)) if c < 20] for seed, n in ((0, 3), (0, 3), (0, 4), (1, 3))]
    assert orders[0] == orders[1]  # of the first class, which has 20 captions
    assert orders[0] not in orders[2:]


def test_new_captions_are_asked_for_once_an_image():
    pairs = np.concatenate(ShuffledPairs(dataset(writer=Writer()), 4, seed=0, afresh=True).epoch(0))
    assert sorted(pairs[:, 0].tolist()) == list(range(9))
    assert set(pairs[:, 1].tolist()) == {AFRESH}


@pytest.mark.parametrize(
    ("cls", "options", "error", "message"),
    [
        (ShuffledPairs, {"batch_size": 0}, ConfigError, "batch_size: must be from 1 to 45"),
        (ShuffledPairs, {"batch_size": 46}, ConfigError, "batch_size: must be from 1 to 45"),
        (ShuffledPairs, {"batch_size": 8, "captions_per_image": 0}, ConfigError, "captions_per_image: must be from 1"),
        (ShuffledPairs, {"batch_size": 8, "captions_per_image": 5}, ConfigError, "half of a batch of 8.*got 5"),
        (ShuffledPairs, {"batch_size": 4, "afresh": True}, ConfigError, "cannot write new captions"),
        (OnePerClass, {"afresh": True}, ConfigError, "cannot write new captions"),
        (OnePerClass, {"classes_per_batch": 0}, ConfigError, "classes_per_batch: must be from 1 to 3"),
        (OnePerClass, {"classes_per_batch": 4}, ConfigError, "classes_per_batch: must be from 1 to 3"),
        (OnePerClass, {"dataset": dataset(classes=False)}, DataError, "no classes"),
    ],
)
def test_invalid_settings_are_refused(cls, options, error, message):
    with pytest.raises(error, match=message):
        cls(**{"dataset": dataset(), "seed": 0, **options})


@pytest.mark.parametrize(
    ("images", "classes"), [(range(9), [0, 1, 2]), ([0, 1, 2, 3, 6, 7, 8], [0, 2])], ids=("all", "without the second")
)
def test_each_batch_has_one_pair_of_each_class_in_random_order(images, classes):
    data = dataset().subset(list(images))
    sampler = OnePerClass(data, seed=0)
    batches = sampler.epoch(0)
    assert len(batches) == len(sampler) == 5 * len(images) // len(classes)
    orders = {tuple(data.classes.values[batch[:, 0]].tolist()) for batch in batches}
    assert all(sorted(order) == classes for order in orders)
    assert len(orders) > 1
    for batch in batches:
        assert np.array_equal(data.caption_image[batch[:, 1]], batch[:, 0])


def test_fewer_classes_than_there_are_make_a_batch():
    data = dataset(sizes=(3,) * 7)
    batches = OnePerClass(data, seed=0, classes_per_batch=3).epoch(0)
    labels = data.classes.values[np.stack(batches)[:, :, 0]]
    assert labels.shape == (105 // 3, 3)
    assert all(len(set(row)) == 3 for row in labels.tolist())
    assert set(labels.ravel()) == set(range(7))


def test_a_class_uses_all_its_pairs_before_any_again():
    data = dataset()
    pairs = np.concatenate(OnePerClass(data, seed=0).epoch(0))
    classes = data.classes.values[pairs[:, 0]]
    for label, size in enumerate((20, 10, 15)):
        counts = Counter(pairs[classes == label, 1].tolist())
        assert max(counts.values()) - min(counts.get(c, 0) for c in counts) <= 1
        assert len(counts) == min(size, 15)


def gathered(owners, together):
    """By a loop: each item goes to the latest group of its owner, or opens one where that is full."""
    groups, latest = [], {}
    for position, owner in enumerate(owners):
        if owner not in latest or len(latest[owner]) == together:
            latest[owner] = []
            groups.append(latest[owner])
        latest[owner].append(position)
    return [position for group in groups for position in group]


@pytest.mark.parametrize("together", [1, 2, 3, 10])
def test_captions_of_an_image_follow_each_other_in_the_order_they_are_drawn_in(together):
    """And one at a time is the order of before."""
    data = dataset(per_image=5)
    pairs = np.concatenate(ShuffledPairs(data, 20, seed=0, captions_per_image=together).epoch(2)).tolist()
    order = numpy_stream(0, "pairs", 2).permutation(45)
    owners = data.caption_image[order].tolist()
    expected = [int(order[position]) for position in gathered(owners, together)]
    assert [caption for _, caption in pairs] == expected
    assert sorted(expected) == list(range(45))
    assert expected != order.tolist() or together == 1


def test_a_batch_has_as_many_captions_of_each_of_its_images_as_asked_for():
    data = dataset(sizes=(4, 2, 2), per_image=6)
    sampler = ShuffledPairs(data, 12, seed=0, captions_per_image=3, drop_last=True)
    batches = sampler.epoch(0)
    assert len(batches) == len(sampler) == 4
    for batch in batches:
        assert all(count % 3 == 0 for count in Counter(batch[:, 0].tolist()).values())
        assert np.array_equal(data.caption_image[batch[:, 1]], batch[:, 0])
    assert len(set(captions(batches))) == 48
    assert len({tuple(sorted(set(batch[:, 0].tolist()))) for batch in batches}) > 1
