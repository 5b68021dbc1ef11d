from dataclasses import replace

import numpy as np
import pytest
import torch

from pcme.data import Problems
from pcme.data.aviary.dataset import Aviary
from pcme.data.aviary.parsing import tokens
from pcme.data.images.transforms import ImageTransform
from pcme.data.loading.batches import Loader, image_batches
from pcme.data.loading.samplers import ShuffledPairs
from pcme.data.text.perturbation import WordAugmentation
from pcme.data.text.tokens import Vocab, tokenise
from pcme.errors import DataError
from pcme.retrieval.labels import UNSAID
from tests.helpers import photos

SMALL = ImageTransform(size=16, resize=None, crop="none")
RANDOM = ImageTransform(size=16, resize=None, crop="random-resized", flip=True, cutout=0.5)


@pytest.fixture(scope="module")
def aviary():
    return Aviary(train_species=12, train_images=3, pixels=16, captions_per_image=4).load("train")


@pytest.fixture(scope="module")
def vocab(aviary):
    return Vocab.build(aviary.captions)


def loader(dataset, vocab, **options):
    sampler = options.pop("sampler", None) or ShuffledPairs(dataset, 8, seed=1)
    return Loader(dataset, sampler, vocab, options.pop("transform", SMALL), seed=1, **options)


def contents(batches):
    """All that the batches hold, to be compared."""
    tensors = [(batch.images, batch.tokens.ids, batch.matches, batch.image_index) for batch in batches]
    return [[part.tolist() for part in batch] for batch in tensors], [batch.words for batch in batches]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_number_of_workers_gives_the_same_batches(tmp_path, vocab, workers):
    data = photos(tmp_path)
    options = {"transform": RANDOM, "word_drop": 0.3}
    alone = list(loader(data, vocab, workers=0, **options).epoch(2))
    shared = list(loader(data, vocab, workers=workers, **options).epoch(2))
    assert len(alone) == 4
    assert contents(alone) == contents(shared)


def test_an_epoch_can_be_entered_at_any_step(aviary, vocab):
    options = {"sampler": ShuffledPairs(aviary, 8, seed=0, afresh=True), "word_drop": 0.2}
    whole = list(loader(aviary, vocab, **options).epoch(1))
    rest = list(loader(aviary, vocab, **options).epoch(1, start=2))
    assert contents(rest) == contents(whole[2:])


def test_epochs_differ_in_order_and_augmentation(tmp_path, vocab):
    data = photos(tmp_path)
    whole = loader(data, vocab, sampler=ShuffledPairs(data, 30, seed=1), transform=RANDOM)
    first, second = (next(whole.epoch(number)) for number in (0, 1))
    assert not np.array_equal(first.image_index, second.image_index)
    orders = [np.argsort(batch.caption_index) for batch in (first, second)]
    assert not torch.equal(first.images[orders[0]], second.images[orders[1]])


@pytest.mark.parametrize("by_class", [False, True])
def test_pairs_of_one_image_or_class_are_positives(tmp_path, vocab, by_class):
    """The authors' code takes the diagonal: two captions of one image become negatives."""
    data = photos(tmp_path, count=6 if by_class else 3, per_image=8)
    data = data.matching_class() if by_class else data
    for batch in loader(data, vocab).epoch(0):
        owner = batch.image_index % 3 if by_class else batch.image_index
        expected = owner[:, None] == owner[None]
        assert batch.matches.numpy().tolist() == expected.tolist()
        assert expected.sum() > len(batch)


@pytest.mark.parametrize(
    ("afresh", "word_drop", "rule"), [(False, 0.0, "plain"), (False, 0.4, "treebank"), (True, 0.4, "plain")]
)
def test_aviary_batches_know_all_true_matches_after_dropping(aviary, vocab, afresh, word_drop, rule):
    sampler, vocab = ShuffledPairs(aviary, 12, seed=0, afresh=afresh), replace(vocab, rule=rule)
    more = 0
    for batch in loader(aviary, vocab, sampler=sampler, word_drop=word_drop).epoch(0):
        for column, words in enumerate(batch.words):
            said = aviary.writer.read(tokens(" ".join(words)))
            for row, image in enumerate(batch.image_index):
                facts = aviary.facts[image]
                true = all(s in (UNSAID, f) for s, f in zip(said, facts, strict=True))
                assert bool(batch.matches[row, column]) == true
        more += int(batch.matches.sum()) - len(batch)
    assert more > 0


def test_erased_words_are_unknown_and_no_longer_said(aviary, vocab):
    options = {"sampler": ShuffledPairs(aviary, 8, seed=0), "word_erasing": 0.5}
    words = [w for batch in loader(aviary, vocab, **options).epoch(0) for w in batch.words]
    shares = np.array([sentence.count("<unk>") / len(sentence) for sentence in words])
    assert 0.3 < (shares > 0.2).mean() < 0.6
    for batch in loader(aviary, vocab, **options).epoch(0):
        silent = [j for j, w in enumerate(batch.words) if set(w) == {"<unk>"}]
        assert batch.matches[:, silent].all()


def test_rows_are_the_pixels_and_tokens_of_their_pairs(aviary, vocab):
    batch = next(loader(aviary, vocab).epoch(0))
    assert (batch.images.dtype, batch.images.shape) == (torch.uint8, (8, 3, 16, 16))
    for row, (image, caption) in enumerate(zip(batch.image_index.tolist(), batch.caption_index.tolist(), strict=True)):
        words = tokenise(aviary.captions[caption])
        assert torch.equal(batch.images[row], SMALL(aviary.images.load(image)))
        assert batch.tokens.ids[row, : batch.tokens.lengths[row]].tolist() == vocab.encode(words)
        assert batch.words[row] == tuple(words)


def test_fresh_captions_differ_from_epoch_to_epoch(aviary, vocab):
    sampler = ShuffledPairs(aviary, 36, seed=0, afresh=True)
    first, second = (next(loader(aviary, vocab, sampler=sampler).epoch(number)) for number in (0, 1))
    assert set(first.words) != set(second.words)


def samples(loader):
    """{caption: its words and pixels} of an epoch."""
    return {
        caption: (words, pixels.tolist())
        for batch in loader.epoch(0)
        for caption, words, pixels in zip(batch.caption_index.tolist(), batch.words, batch.images, strict=True)
    }


def test_bad_images_are_left_out_counted_once_and_named(tmp_path, vocab):
    data, problems = photos(tmp_path), Problems()
    made = loader(data, vocab, problems=problems, transform=RANDOM, word_drop=0.3)
    whole = samples(made)
    (tmp_path / "3.jpg").write_bytes(b"")
    (tmp_path / "5.jpg").write_bytes((tmp_path / "5.jpg").read_bytes()[:200])
    rest = samples(made)
    assert rest == {caption: whole[caption] for caption in rest}  # a sample does not depend on the others
    for epoch in (0, 1):
        batches = list(made.epoch(epoch))
        seen = np.concatenate([batch.image_index for batch in batches])
        assert sorted(seen) == sorted(i for i in range(10) if i not in (3, 5) for _ in range(3))
        for batch in batches:
            assert len(batch) == len(batch.images) == len(batch.tokens.ids) == len(batch.matches)
    assert problems.counts == {"image-empty": 1, "image-truncated": 1}


def test_a_batch_that_is_left_out_is_counted_so_that_an_epoch_can_be_entered(tmp_path, vocab):
    data = photos(tmp_path, count=5, per_image=1)
    made = loader(data, vocab, sampler=ShuffledPairs(data, 1, seed=0))
    whole = list(made.epoch(0))
    (tmp_path / data.images.id(int(whole[1].image_index[0]))).unlink()
    rest = list(made.epoch(0))
    assert [batch.step for batch in rest] == [0, 2, 3, 4]
    after = next(made.epoch(0, start=rest[1].step + 1))
    assert after.image_index.tolist() == whole[3].image_index.tolist()
    assert made.problems.counts == {"image-missing": 1}


def test_strict_stops_training_at_the_first(tmp_path, vocab):
    data = photos(tmp_path)
    (tmp_path / "3.jpg").unlink()
    with pytest.raises(DataError, match=r"3\.jpg: no such file"):
        list(loader(data, vocab, problems=Problems(strict=True)).epoch(0))


class View:
    def __init__(self, number):
        self.number = number

    def row(self, index):
        return None if index == 4 else torch.tensor([[float(index), float(self.number)]])


@pytest.mark.parametrize("views", [1, 3])
def test_a_sample_takes_features_of_any_view_and_always_the_same_one(tmp_path, vocab, views):
    data, problems = photos(tmp_path), Problems()
    for path in tmp_path.iterdir():
        path.unlink()  # no image is read
    options = {"features": [View(number) for number in range(views)], "problems": problems}
    batches, again = (list(loader(data, vocab, workers=workers, **options).epoch(0)) for workers in (0, 2))
    assert sum(map(len, batches)) == 27
    for batch, other in zip(batches, again, strict=True):
        assert batch.images[:, 0, 0].tolist() == batch.image_index.tolist()
        assert torch.equal(batch.images, other.images)
    assert {int(n) for batch in batches for n in batch.images[:, 0, 1]} == set(range(views))
    assert problems.counts == {"image-unreadable": 1}


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("start", [0, 4])
def test_image_batches_are_all_usable_images_in_order(tmp_path, workers, start):
    data = photos(tmp_path)
    for number in (6, 7, 8):  # once a whole batch
        (tmp_path / f"{number}.jpg").write_bytes(b"")
    problems = Problems()
    made = list(image_batches(data.images, SMALL, batch_size=3, problems=problems, workers=workers, start=start))
    indices = np.concatenate([part for part, _ in made])
    assert indices.tolist() == [*range(start, 6), 9]
    for part, pixels in made:
        assert len(part)
        for index, row in zip(part, pixels, strict=True):
            assert torch.equal(row, SMALL(data.images.load(int(index)), None))
    assert problems.counts == {"image-empty": 3}


class States:
    """Of a view and a tower: as many rows as the view's words, and an end."""

    def __init__(self, view, width, words):
        self.view, self.width, self.words = view, width, words

    def row(self, index):
        return torch.full((len(self.words(self.view, index)) + 1, self.width), float(10 * index + self.view))


@pytest.mark.parametrize("views", [1, 3])
def test_a_sample_takes_states_of_any_view_with_the_words_of_that_view(tmp_path, vocab, views):
    data, augmentation = photos(tmp_path), WordAugmentation(drop=0.4)

    def words(view, caption):
        return augmentation.view(tokenise(data.captions[caption]), view, caption)

    states = [[States(view, width, words) for width in (2, 5)] for view in range(views)]
    batches, again = (list(loader(data, vocab, states=states, word_drop=0.4, workers=w).epoch(0)) for w in (0, 2))
    seen = set()
    for batch, other in zip(batches, again, strict=True):
        assert batch.words == other.words
        for width, found, same in zip((2, 5), batch.tokens.states, other.tokens.states, strict=True):
            assert torch.equal(found, same)
            assert found.shape == (len(batch), max(map(len, batch.words)) + 1, width)
            for row, caption in enumerate(batch.caption_index.tolist()):
                view, length = int(found[row, 0, 0]) - 10 * caption, len(batch.words[row]) + 1
                assert batch.words[row] == tuple(words(view, caption))
                assert (found[row, :length] == 10 * caption + view).all()
                assert not found[row, length:].any()
                seen.add(view)
    assert seen == set(range(views))
