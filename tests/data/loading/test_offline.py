"""Batches in three parts, and where each row of them comes from."""

import numpy as np

from pcme.data.aviary.dataset import Writer
from pcme.data.loading.offline import OfflineNegatives, WithOffline
from pcme.data.loading.samplers import AFRESH, ShuffledPairs
from tests.data.loading.test_samplers import dataset

DATA = dataset(sizes=(4, 2), per_image=3)  # 6 images, 18 captions
TABLE = OfflineNegatives(
    captions=np.array([[(3 * n + 3 + k) % 18 for k in range(4)] for n in range(6)], np.int32),
    images=np.array([[(m // 3 + 1 + k) % 6 for k in range(2)] for m in range(18)], np.int32),
)


def sampler(table=TABLE, *, data=DATA, seed=0, afresh=False):
    return WithOffline(ShuffledPairs(data, 5, seed=0, afresh=afresh), data, table, seed)


def test_a_batch_has_its_pairs_their_negatives_and_the_partners_of_those():
    found = sampler()
    plain = found.pairs.epoch(2)
    assert len(found) == len(plain)
    ranks = set()
    for batch, pairs in zip(found.epoch(2), plain, strict=True):
        anchors, mined, partners = np.split(batch, 3)
        assert np.array_equal(anchors, pairs)
        for (image, caption), (like, wrong), (owner, other) in zip(anchors, mined, partners, strict=True):
            place = TABLE.captions[image].tolist().index(wrong)
            assert TABLE.images[caption].tolist().index(like) == place // 2, "the same share of both lists"
            assert owner == DATA.caption_image[wrong]
            assert DATA.caption_image[other] == like
            ranks.add(place)
    assert ranks == {0, 1, 2, 3}


def test_an_epoch_is_a_function_of_its_number_and_the_seed():
    first, again = (np.concatenate(sampler().epoch(1)) for _ in range(2))
    assert np.array_equal(first, again)
    for other in (sampler(seed=1).epoch(1), sampler().epoch(2)):
        assert not np.array_equal(first, np.concatenate(other))


def test_pairs_without_negatives_are_left_out():
    captions, images = TABLE.captions.copy(), TABLE.images.copy()
    captions[1], images[[0, 17]] = -1, -1
    found = np.concatenate([batch[: len(batch) // 3] for batch in sampler(OfflineNegatives(captions, images)).epoch(0)])
    assert sorted(found[:, 1].tolist()) == [m for m in range(18) if m // 3 != 1 and m not in (0, 17)]


def test_a_caption_written_afresh_has_the_negatives_of_one_of_its_image():
    data = dataset(sizes=(4, 2), per_image=3, writer=Writer())
    for batch in sampler(data=data, afresh=True).epoch(0):
        anchors, mined, partners = np.split(batch, 3)
        assert set(anchors[:, 1]) == {AFRESH}
        for (image, _), (like, wrong) in zip(anchors, mined, strict=True):
            assert wrong in TABLE.captions[image]
            assert like in TABLE.images[3 * image]
        assert partners.min() >= 0
