"""Queries: texts, images, embeddings and combinations; errors for the rest."""

import pytest

from pcme.errors import ConfigError, DataError, ShapeError
from pcme.scores.combine import all_of, any_of, but_not
from tests.helpers import random_gaussians, unless_annotations_are_enforced


def test_combined_queries(world):
    index, model, dataset = world
    images = model.encode_images([dataset.images.load(n) for n in range(24)])
    red, water = (model.encode_captions([text]) for text in ("a red bird", "water"))
    log_p = (model.score()(red, images).double() + model.score()(water, images).double())[0]
    hits = index.search(all_of(["a red bird", "water"]), k=24, kind="image")
    best = [dataset.images.id(n) for n in log_p.argsort(descending=True, stable=True)]
    assert hits.ids == best
    assert hits[0].score == pytest.approx(float(log_p.max()), rel=1e-5)
    assert hits[0].raw_probability is None
    assert hits.query.expected_matches == pytest.approx(float(log_p.exp().sum()), rel=1e-4)
    both = index.search(any_of(["a red bird", dataset.images.load(3)]), k=3, kind="image")
    assert both[0].id == dataset.images.id(3)
    image = dataset.images.load(3)
    own = index.search(image, k=1, kind="image")[0].match_probability
    without = index.search(but_not(image, image), k=24, kind="image")
    (same,) = (hit for hit in without if hit.id == dataset.images.id(3))
    assert same.match_probability == pytest.approx(own * (1 - own), rel=1e-3)


def test_combinations_by_keyword(calibrated):
    index, _ = calibrated
    asked = index.search("a red bird", 40, all_of=["water"], any_of=["sky"], but_not=["a tail"])
    built = but_not(any_of([all_of(["a red bird", "water"]), "sky"]), any_of(["a tail"]))
    assert asked.record() == index.search(built, 40).record()
    assert index.search(all_of=["a red bird"]).ids == index.search("a red bird").ids
    assert index.search(any_of=["a", "b"]).ids == index.search(any_of(["a", "b"])).ids
    for nothing in ({}, {"but_not": ["a bird"]}):
        with pytest.raises(ConfigError, match="empty query"):
            index.search(**nothing)


def test_one_gaussian_of_several_is_searched_as_one(world):
    index, model, _ = world
    query = all_of(["a red bird", "water"], how="density")
    encoded = query.encoded(lambda text: model.encode_captions([text]))
    assert index.search(query).ids == index.search(encoded.embedding).ids


def test_words_that_nobody_knows_are_marked(world):
    hits = world[0].search("xylophone quartz")
    assert hits.query.answerable is False
    assert "knows none of these words: xylophone quartz" in hits.query.note


@pytest.mark.parametrize("query", ["", "   ", "?!"])
def test_a_query_without_words_is_an_error(world, query):
    with pytest.raises(DataError, match="no words"):
        world[0].search(query)


def test_a_picture_that_cannot_be_read_is_an_error(world, tmp_path):
    (tmp_path / "empty.jpg").touch()
    with pytest.raises(DataError, match=r"empty\.jpg: the file has 0 bytes"):
        world[0].search(tmp_path / "empty.jpg")
    with pytest.raises(DataError, match=r"none\.jpg: no such file"):
        world[0].search(tmp_path / "none.jpg")


@unless_annotations_are_enforced
def test_other_queries_are_errors(world):
    index = world[0]
    with pytest.raises(ConfigError, match="query: must be"):
        index.search(7)
    with pytest.raises(ShapeError, match="dimension 16, got 5"):
        index.search(random_gaussians(1, 5, seed=0))
    with pytest.raises(DataError, match="query: must be one item, got 2"):
        index.search(random_gaussians(2, 16, seed=0))
    with pytest.raises(ConfigError, match="must be at least 1"):
        index.search("a bird", k=0)
    with pytest.raises(ConfigError, match='got "film"'):
        index.search("a bird", kind="film")
