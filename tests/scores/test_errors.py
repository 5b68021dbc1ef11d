"""Wrong input to a score: one PcmeError that says what is wrong and what was given."""

import math

import pytest
import torch

from pcme import Gaussian, PcmeError, Points, scores
from pcme.errors import ConfigError, DataError, ShapeError
from tests.helpers import random_gaussians, unless_annotations_are_enforced

SCORES = [scores.create(name) for name in scores.names()]
SCORES.append(scores.create("match_prob", method="sampled"))
TAKE_POINTS = [score for score in SCORES if score.max_points is None]

every_score = pytest.mark.parametrize("score", SCORES, ids=repr)
every_way = pytest.mark.parametrize("way", ["matrix", "blocks", "top-k"])


def rank(score, queries, gallery, way):
    """One way to ask for scores."""
    if way == "matrix":
        return score(queries, gallery)
    if way == "blocks":
        return list(score.blocks(queries, gallery))
    return score.topk(queries, gallery, k=1)


def items(n=4, dim=3, **options):
    return random_gaussians(n, dim, seed=0, **options)


def points(n, k, dim):
    return Points(torch.randn(n, k, dim, generator=torch.Generator().manual_seed(0)))


@every_way
@every_score
def test_an_empty_side_is_named(score, way):
    with pytest.raises(ShapeError, match=r"queries.*empty"):
        rank(score, items()[:0], items(), way)
    with pytest.raises(ShapeError, match=r"gallery.*empty"):
        rank(score, items(), items()[:0], way)


@every_way
@every_score
def test_two_dimensions_are_both_named(score, way):
    with pytest.raises(ShapeError, match=r"queries.*\b3\b.*gallery.*\b5\b"):
        rank(score, items(dim=3), items(dim=5), way)


@every_way
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("part", ["mean", "log_sigma"])
@pytest.mark.parametrize("side", ["queries", "gallery"])
@every_score
def test_a_value_that_is_not_finite_is_located(score, side, part, bad, way):
    given = {"queries": items(), "gallery": items(n=6)}
    getattr(given[side], part)[2, 1] = bad
    with pytest.raises(DataError, match=rf"{side}\.{part}.*\b1 of \d items.*item 2\b"):
        rank(score, given["queries"], given["gallery"], way)


@pytest.mark.parametrize("score", TAKE_POINTS, ids=repr)
def test_a_point_that_is_not_finite_is_located(score):
    bad = points(4, 2, 3)
    bad.x[3, 0, 1] = math.nan
    with pytest.raises(DataError, match=r"gallery\.x.*item 3\b"):
        score(items(), bad)


@every_way
@pytest.mark.parametrize(("queries", "gallery"), [(torch.float32, torch.float64), (torch.float64, torch.float32)])
@every_score
def test_two_precisions_are_both_named(score, queries, gallery, way):
    with pytest.raises(ShapeError, match=rf"{queries}.*{gallery}"):
        rank(score, items(dtype=queries), items(dtype=gallery), way)


@every_way
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
@every_score
def test_half_precision_is_named(score, half, way):
    with pytest.raises(ShapeError, match=rf"{half}"):
        rank(score, items(dtype=half), items(dtype=half), way)


@every_way
@pytest.mark.parametrize("score", [s for s in SCORES if s not in TAKE_POINTS], ids=repr)
def test_points_are_no_gaussians(score, way):
    for queries, gallery in ((points(4, 2, 3), items()), (items(), points(4, 2, 3))):
        with pytest.raises(ShapeError, match=rf"{type(score).__name__}.*Points.*average_l2"):
            rank(score, queries, gallery, way)


def test_mean_takes_single_points_as_they_are():
    queries, gallery = points(4, 1, 3), points(5, 1, 3)
    expected = -torch.cdist(queries.x[:, 0], gallery.x[:, 0]).square()
    torch.testing.assert_close(scores.create("mean")(queries, gallery), expected)


@pytest.mark.parametrize("k", [0, -1, 7])
@every_score
def test_k_out_of_range_is_named_with_the_size_of_the_gallery(score, k):
    with pytest.raises(ConfigError, match=rf"\b6 items.*{k}"):
        score.topk(items(), items(n=6), k=k)


# Names and parameters


@pytest.mark.parametrize(
    ("name", "hint"), [("match-prob", '"match_prob"'), ("Mean", '"mean"'), ("", "csd"), ("?", "csd")]
)
def test_an_unknown_name_lists_the_known_ones(name, hint):
    with pytest.raises(ConfigError) as caught:
        scores.create(name)
    message = str(caught.value)
    assert f'"{name}"' in message
    assert hint in message
    assert all(known in message for known in scores.names())


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        ("match_prob", {"sample": 3}, ["sample", '"samples"?', "scale, shift, method"]),
        ("overlap", {"bias": 1.0}, ["bias", "scale, shift"]),
        ("csd", {"scale": 1.0}, ["scale", '"csd"', "no fields"]),
    ],
)
def test_an_unknown_parameter_lists_the_known_ones(name, params, said):
    with pytest.raises(ConfigError) as caught:
        scores.create(name, **params)
    assert all(words in str(caught.value) for words in said)


BAD_VALUES = [
    ("match_prob", "scale", 0.0),
    ("match_prob", "scale", -5.0),
    ("match_prob", "scale", math.nan),
    ("match_prob", "scale", math.inf),
    ("match_prob", "shift", math.nan),
    ("match_prob", "shift", math.inf),
    ("match_prob", "samples", 0),
    ("match_prob", "samples", -3),
    pytest.param("match_prob", "method", "exact", marks=unless_annotations_are_enforced),
    ("overlap", "scale", 0.0),
    ("overlap", "scale", -1.0),
    ("overlap", "scale", math.nan),
    ("overlap", "scale", math.inf),
    ("overlap", "shift", -math.inf),
    ("csd_prob", "scale", 0.0),
    ("csd_prob", "shift", math.inf),
    ("nearest", "samples", 0),
    ("average_l2", "samples", 0),
    ("average_l2", "samples", -1),
]


@pytest.mark.parametrize(("name", "field", "value"), BAD_VALUES)
def test_a_bad_value_is_named(name, field, value):
    with pytest.raises(ConfigError) as caught:
        scores.create(name, **{field: value})
    assert name in str(caught.value)
    assert field in str(caught.value)
    assert str(value) in str(caught.value)


def test_a_spread_beyond_any_precision_is_refused_rather_than_ranked():
    """σ from e⁻²⁰⁰ to e²⁰⁰ in one dimension: no score of a density is a number any more."""
    wild = Gaussian(torch.zeros(2, 1), torch.tensor([[-200.0], [200.0]]))
    for name in ("elk", "bhattacharyya", "overlap"):
        with pytest.raises(PcmeError, match="log_sigma"):
            scores.create(name)(wild, wild)
