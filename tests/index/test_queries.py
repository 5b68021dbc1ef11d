"""Queries: texts, images, embeddings and combinations; errors for the rest."""

import pytest

from pcme.errors import ConfigError, DataError, ShapeError
from pcme.scores.combine import all_of, any_of, but_not
from tests.helpers import random_gaussians, unless_annotations_are_enforced
from tests.index.worlds import image_ids


def test_combined_queries(world):
    index, model, dataset = world
    ids, image = image_ids(dataset), dataset.images.load(3)
    images = model.encode_images(list(map(dataset.images.load, range(24))))
    red, water = (model.encode_captions([text]) for text in ("a red bird", "water"))
    log_p = (model.score()(red, images).double() + model.score()(water, images).double())[0]
    hits = index.search(all_of(["a red bird", "water"]), k=24, kind="image")
    assert hits.ids == [ids[n] for n in log_p.argsort(descending=True, stable=True)]
    assert hits[0].score == pytest.approx(float(log_p.max()), rel=1e-5)
    assert hits[0].raw_probability is None
    assert hits.query.expected_matches == pytest.approx(float(log_p.exp().sum()), rel=1e-4)
    assert index.search(any_of(["a red bird", image]), k=3, kind="image")[0].id == ids[3]
    p = index.search(image, k=1, kind="image")[0].match_probability
    (same,) = (hit for hit in index.search(but_not(image, image), k=24, kind="image") if hit.id == ids[3])
    assert same.match_probability == pytest.approx(p * (1 - p), rel=1e-3)
    product = all_of(["a red bird", "water"], how="density")  # one Gaussian of several
    encoded = product.encoded(lambda text: model.encode_captions([text]))
    assert index.search(product).ids == index.search(encoded.embedding).ids


@unless_annotations_are_enforced
def test_combinations_by_keyword(calibrated):
    index, _ = calibrated
    hits = index.search("a red bird", 40, all_of=["water"], any_of=["sky"], but_not=["a tail"])
    built = but_not(any_of([all_of(["a red bird", "water"]), "sky"]), any_of(["a tail"]))
    assert hits.record() == index.search(built, 40).record()
    assert index.search(all_of=["a red bird"]).record() == index.search("a red bird").record()
    assert index.search(any_of=["a", "b"]).ids == index.search(any_of(["a", "b"])).ids
    for nothing in ({}, {"but_not": ["a bird"]}):
        with pytest.raises(ConfigError, match="empty query"):
            index.search(**nothing)


def test_words_that_nobody_knows_are_marked(world):
    hits = world[0].search("xylophone quartz")
    assert hits.query.answerable is False
    assert "knows none of these words: xylophone quartz" in hits.query.note


def test_an_image_that_cannot_be_read_is_an_error(world, tmp_path):
    (tmp_path / "empty.jpg").touch()
    for name, message in (("empty", r"empty\.jpg: the file has 0 bytes"), ("none", r"none\.jpg: no such file")):
        with pytest.raises(DataError, match=message):
            world[0].search(tmp_path / f"{name}.jpg")


@unless_annotations_are_enforced
@pytest.mark.parametrize(
    ("query", "options", "error", "message"),
    [
        *((text, {}, DataError, "no words") for text in ("", "   ", "?!")),
        (7, {}, ConfigError, "query: must be"),
        (random_gaussians(1, 5, seed=0), {}, ShapeError, "dimension 16, got 5"),
        (random_gaussians(2, 16, seed=0), {}, DataError, "query: must be one item, got 2"),
        ("a bird", {"k": 0}, ConfigError, "must be at least 1"),
        ("a bird", {"kind": "film"}, ConfigError, 'got "film"'),
    ],
)
def test_other_queries_are_errors(world, query, options, error, message):
    with pytest.raises(error, match=message):
        world[0].search(query, **options)
