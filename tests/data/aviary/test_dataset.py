import pickle
from dataclasses import replace

import numpy as np
import pytest

from pcme.data import create
from pcme.data.aviary.attributes import ATTRIBUTES, BACKGROUND, SHAPE, SPECIES, facts_of
from pcme.data.aviary.dataset import Aviary, Drawn, Writer
from pcme.data.aviary.parsing import read, tokens
from pcme.data.dataset import CaptionDataset
from pcme.data.text.tokens import tokenise
from pcme.errors import ConfigError
from pcme.retrieval.labels import UNSAID
from pcme.retrieval.matches import Matches
from tests.helpers import unless_annotations_are_enforced

SMALL = Aviary(
    pixels=16, captions_per_image=5, train_species=30, train_images=2,
    val_species=4, val_images=5, test_species=6, test_images=7,
)  # fmt: skip


@pytest.fixture(scope="module")
def test_split():
    return SMALL.load("test")


@pytest.fixture(scope="module")
def default():
    return Aviary().load("test")


def gallery(facts):
    """A dataset of birds of which these are the facts."""
    images = Drawn("test", facts, per_species=1, seed=0, pixels=16)
    dataset = CaptionDataset.by_image("birds", "all", images, ["a bird"], [0])
    said = np.full((1, len(SHAPE)), UNSAID)
    return replace(dataset, facts=facts, said=said, writer=Writer())


@pytest.mark.parametrize("split", SMALL.splits)
def test_what_is_said_is_what_the_text_says(split):
    dataset = SMALL.load(split)
    for text, said in zip(dataset.captions, dataset.said, strict=True):
        assert read(tokens(text)).tolist() == said.tolist() == read(tokenise(text)).tolist()
    assert dataset.matches().dense()[np.arange(len(dataset.said)), dataset.caption_image].all()


def test_captions_match_from_one_image_to_all_of_them(default):
    counts = default.multiplicity()
    assert (counts.min(), counts.max(), len(default.images)) == (1, 1000, 1000)
    assert 20 < np.median(counts) < 100
    assert 0.5 < np.mean(counts <= len(default.images) / 10) < 0.8


@pytest.mark.parametrize(
    "load",
    [
        lambda split: SMALL.load("test"),
        lambda split: replace(SMALL, train_species=100, train_images=9).load("test"),
        lambda split: pickle.loads(pickle.dumps(split)),
    ],
    ids=("again", "with more to train on", "in another process"),
)
def test_a_split_is_always_the_same(test_split, load):
    other = load(test_split)
    assert list(other.captions) == list(test_split.captions)
    assert np.array_equal(other.facts, test_split.facts)
    assert other.images.load(3).tobytes() == test_split.images.load(3).tobytes()


def test_the_seed_changes_everything(test_split):
    other = replace(SMALL, seed=1).load("test")
    assert not np.array_equal(other.facts, test_split.facts)
    assert list(other.captions) != list(test_split.captions)
    assert other.images.stamp(0) != test_split.images.stamp(0)


def test_splits_share_no_species_even_when_all_are_used():
    everything = Aviary(train_species=11_564, train_images=1, captions_per_image=1)
    species = [np.unique(everything.load(split).facts[:, :BACKGROUND], axis=0) for split in everything.splits]
    assert list(map(len, species)) == [11_564, 50, 50]
    assert len(np.unique(np.concatenate(species), axis=0)) == SPECIES


def test_birds_of_a_species_differ_in_background_only(default):
    for species in range(50):
        facts = default.facts[default.classes.values == species]
        assert len(facts) == 20
        assert len(np.unique(facts[:, :BACKGROUND], axis=0)) == 1
    assert np.bincount(default.facts[:, BACKGROUND]).min() > 200
    assert len(set(default.classes.names)) == 50


def test_labels_name_what_is_true(test_split):
    for row, facts in zip(test_split.labels.values, test_split.facts, strict=True):
        names = {test_split.labels.names[column] for column in np.flatnonzero(row)}
        assert names == {f"{a.name}:{a.values[v]}" for a, v in zip(ATTRIBUTES, facts, strict=True)}


def test_ids_name_species_and_picture(test_split):
    ids = [test_split.images.id(i) for i in range(len(test_split.images))]
    assert (ids[0], ids[8], len(set(ids))) == ("test/0000-00", "test/0001-01", 42)
    assert test_split.caption_ids[44] == "test/0001-01#4"
    assert len(set(test_split.caption_ids)) == len(test_split.captions) == 210


def test_a_stamp_changes_with_the_pixels(test_split):
    larger = replace(SMALL, pixels=32).load("test").images
    changed = replace(test_split.images, facts=test_split.facts[::-1])
    assert (larger.id(0), larger.load(0).size) == (test_split.images.id(0), (32, 32))
    assert len({images.stamp(0) for images in (test_split.images, larger, changed)}) == 3


def test_texts_are_indexed_like_a_list(test_split):
    captions, whole = test_split.captions, list(test_split.captions)
    for index in (-1, np.int64(3), slice(5, 2, -1)):
        assert captions[index] == whole[index]
    assert test_split.images.id(-1) == "test/0005-06"
    for get in (captions.__getitem__, test_split.images.id):
        with pytest.raises(IndexError):
            get(len(captions))


@unless_annotations_are_enforced
def test_nothing_is_drawn_or_written_before_it_is_asked_for(monkeypatch):
    monkeypatch.setattr("pcme.data.aviary.dataset.draw", None)
    monkeypatch.setattr("pcme.data.aviary.dataset.compose", None)
    dataset = Aviary(train_species=5000, train_images=10).load("train")
    assert (len(dataset.images), len(dataset.captions)) == (50_000, 500_000)
    with pytest.raises(TypeError):
        dataset.captions[0]


def test_new_captions_vary_and_are_true(test_split):
    facts, generator = test_split.facts[0], np.random.default_rng(0)
    texts = {test_split.writer.write(facts, generator) for _ in range(50)}
    assert len(texts) > 20
    for text in texts:
        said = test_split.writer.read(tokens(text))
        assert np.all((said == UNSAID) | (said == facts))


def test_unmatched_captions_match_nothing_and_say_so(default):
    written = default.unmatched(200)
    texts, said = written.captions, written.said
    assert Matches.from_facts(said, default.facts).counts.max() == 0
    assert [read(tokens(text)).tolist() for text in texts] == said.tolist()
    assert len(set(texts)) > 150
    assert len(np.unique((said != UNSAID).sum(1))) >= 4
    assert default.unmatched(200).captions == texts
    assert default.unmatched(200, seed=1).captions != texts


def test_the_only_absent_combination_is_found():
    everything = np.indices(SHAPE).reshape(len(SHAPE), -1).T
    bird = facts_of(crown="white", breast="blue", wing="red", bill="long", pattern="plain")
    same = (everything[:, :6] == bird[:6]).all(1)
    written = gallery(everything[~same]).unmatched(3)
    texts, said = written.captions, written.said
    assert said.tolist() == [[*bird[:6], UNSAID, UNSAID]] * 3
    assert read(tokens(texts[0])).tolist() == said[0].tolist()


@pytest.mark.parametrize("missing", [0, 1])
def test_a_gallery_of_all_birds_leaves_nothing_to_say(missing):
    everything = np.indices(SHAPE).reshape(len(SHAPE), -1).T[missing:]
    assert gallery(everything).unmatched(1) is None


def test_unmatched_captions_need_a_writer(test_split):
    with pytest.raises(ConfigError, match="at least 1, got 0"):
        test_split.unmatched(0)
    assert test_split.matching_class().unmatched(1) is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"train_species": 11_565}, "at most 11664 in all, got 11665"),
        ({"test_images": 0}, "test_images: must be at least 1, got 0"),
        ({"captions_per_image": -1}, "captions_per_image: must be at least 1, got -1"),
        ({"pixels": 15}, "pixels: must be at least 16, got 15"),
    ],
)
def test_what_cannot_be_is_an_error(wrong, message):
    with pytest.raises(ConfigError, match=message):
        create("aviary", **wrong)
