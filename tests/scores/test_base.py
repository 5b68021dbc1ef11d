"""What every score inherits: its facts, its cost (the paper's Table 1), and errors that name what is wrong."""

import math
from dataclasses import dataclass

import pytest
import torch

from pcme import Gaussian, PcmeError, Points, scores
from pcme.errors import ConfigError, DataError, ShapeError
from pcme.scores import Cost, Score
from pcme.scores.gallery import Fixed
from pcme.scores.scan import Scan
from tests.helpers import generator, random_gaussians, unless_annotations_are_enforced
from tests.scores.worlds import SCORES, assert_exact, facts, over, sides

TAKE_POINTS = [score for score in SCORES if score.max_points is None]
ORDER = ["matrix", "blocks", "top-k"]
every_score, every_call = over("score", SCORES), pytest.mark.parametrize("call", ORDER)


@dataclass(frozen=True)
class Formula(Score):
    """-weight Σ|μ₁-μ₂|, a score of which only the formula is known."""

    weight: float = 1.0

    def pairs(self, queries, gallery):
        return -self.weight * (queries.mean - gallery.mean).abs().sum(-1)


def test_a_bare_formula_has_all_defaults():
    queries, gallery = sides()
    score, points = Formula(), Points(torch.zeros(2, 1, 6))
    assert facts(score) == (False, False, False, None, 0, False)
    assert (score.name, score.parameters, score.ann(6)) == ("Formula", {"weight": 1.0}, None)
    assert score.suited_to(points) is score.for_single_points() is score
    assert score.takes(queries)
    assert not score.takes(points)
    assert type(score.scan(Fixed(gallery))) is Scan
    assert score.cost(queries) == Cost(12, 48, "O(2N)", None)
    expected = -torch.cdist(queries.mean.double(), gallery.mean.double(), p=1).float()
    torch.testing.assert_close(score(queries, gallery), expected)
    torch.testing.assert_close(score.each(queries[:1], gallery), expected[0])
    assert_exact(score, queries, gallery, 23)
    torch.testing.assert_close(Formula(2.0)(queries, gallery, memory_limit=1 << 10), 2 * expected)


def test_a_new_score_is_registered_under_a_name(monkeypatch):
    registry = scores.registry
    monkeypatch.setattr(registry, "_classes", dict(registry._classes))
    monkeypatch.setattr(registry, "_aliases", dict(registry._aliases))
    registry.register("taxicab", aliases=("l1",))(Formula)
    assert "taxicab" in scores.names()
    assert scores.create("l1", weight=3.0) == Formula(3.0)
    assert registry.summary("taxicab") == Formula.__doc__


PLAIN, DENSITY = (True, False, False, None, 0, False), (True, True, False, None, 0, False)
DIVERGENCE, SAMPLES = (False, True, False, None, 0, False), (True, False, False, None, None, True)
FACTS = {  # facts; numbers and space of an item in six dimensions, and work. Paper: Table 1, with O(JN) for its O(J²N)
    "average_l2": (SAMPLES, 42, "O(JN)", 294),
    "bhattacharyya": (DENSITY, 12, "O(2N)", 36),
    "csd": (PLAIN, 7, "O(N)", 6),
    "csd_prob": ((True, False, True, "csd", 0, False), 7, "O(N)", 6),
    "elk": (DENSITY, 12, "O(2N)", 36),
    "jeffreys": (DENSITY, 12, "O(2N)", 24),
    "kl": (DIVERGENCE, 12, "O(2N)", 12),
    "match_prob": ((True, False, True, None, 0, False), 12, "O(2N)", 36),
    "mean": ((True, False, False, None, 1, False), 7, "O(N)", 6),
    "nearest": (SAMPLES, 42, "O(JN)", 294),
    "overlap": ((True, True, True, "elk", 0, False), 12, "O(2N)", 36),
    "ppk": (DENSITY, 12, "O(2N)", 36),
    "reverse_kl": (DIVERGENCE, 12, "O(2N)", 12),
    "w2": (PLAIN, 12, "O(2N)", 12),
}


@pytest.mark.parametrize("name", scores.names())
def test_facts_and_cost(name):
    expected, numbers, space, work = FACTS[name]
    score = scores.create(name)
    assert facts(score) == expected
    assert score.cost(sides()[0]) == Cost(numbers, 4 * numbers, space, work)


def test_numbers_and_bytes_of_what_is_kept():
    items = Gaussian(torch.zeros(2, 96), torch.zeros(2, 96))
    assert scores.create("mean").cost(items).numbers == 97  # its own norm comes along
    assert scores.create("w2").cost(items).numbers == 192
    assert scores.create("w2").cost(Gaussian(torch.zeros(1, 96), torch.zeros(1, 1))).numbers == 97
    assert scores.create("kl").cost(items.to(torch.float64)).bytes == 16 * 96
    three = scores.create("match_prob", method="sampled", samples=3)
    assert three.cost(items) == Cost(3 * 96, 12 * 96, "O(JN)", 9 * 96)
    points = Points(torch.zeros(2, 4, 96))  # these keep themselves and are not sampled
    assert scores.create("nearest").cost(points) == Cost(4 * 96, 16 * 96, "O(4N)", 16 * 96)
    assert scores.create("mean").cost(Points(points.x[:, :1])) == Cost(96, 384, "O(N)", 96)


def rank(score, queries, gallery, call):
    """All scores, by one of three calls."""
    if call == "matrix":
        return score(queries, gallery)
    if call == "blocks":
        return list(score.blocks(queries, gallery))
    return score.topk(queries, gallery, k=1)


def items(n=4, dim=3, **options):
    return random_gaussians(n, dim, seed=0, **options)


def points(n, k, dim):
    return Points(torch.randn(n, k, dim, generator=generator()))


MISFITS = [
    (lambda: (items()[:0], items()), r"queries.*empty"),
    (lambda: (items(), items()[:0]), r"gallery.*empty"),
    (lambda: (items(dim=3), items(dim=5)), r"queries.*\b3\b.*gallery.*\b5\b"),
    (lambda: (items(), items(dtype=torch.float64)), r"float32.*float64"),
    (lambda: (items(dtype=torch.float64), items()), r"float64.*float32"),
    (lambda: (items(dtype=torch.float16), items(dtype=torch.float16)), "float16"),
    (lambda: (items(dtype=torch.bfloat16), items(dtype=torch.bfloat16)), "bfloat16"),
]


@every_call
@pytest.mark.parametrize(("sides", "message"), MISFITS)
@every_score
def test_sides_that_do_not_fit_are_both_named(score, sides, message, call):
    with pytest.raises(ShapeError, match=message):
        rank(score, *sides(), call)


@every_call
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("part", ["mean", "log_sigma"])
@pytest.mark.parametrize("side", ["queries", "gallery"])
@every_score
def test_a_value_that_is_not_finite_is_located(score, side, part, bad, call):
    both = {"queries": items(), "gallery": items(n=6)}
    getattr(both[side], part)[2, 1] = bad
    with pytest.raises(DataError, match=rf"{side}\.{part}.*\b1 of \d items.*item 2\b"):
        rank(score, both["queries"], both["gallery"], call)
    if score in TAKE_POINTS:
        bad_points = points(4, 2, 3)
        bad_points.x[3, 0, 1] = bad
        with pytest.raises(DataError, match=r"gallery\.x.*item 3\b"):
            rank(score, items(), bad_points, call)


@every_call
@over("score", [score for score in SCORES if score not in TAKE_POINTS])
def test_points_are_no_gaussians(score, call):
    for queries, gallery in ((points(4, 2, 3), items()), (items(), points(4, 2, 3))):
        with pytest.raises(ShapeError, match=rf"{type(score).__name__}.*Points.*average_l2"):
            rank(score, queries, gallery, call)


@pytest.mark.parametrize("k", [0, -1, 7])
@every_score
def test_k_out_of_range_is_named_with_the_size_of_the_gallery(score, k):
    with pytest.raises(ConfigError, match=rf"\b6 items.*{k}"):
        score.topk(items(), items(n=6), k=k)


@pytest.mark.parametrize(
    ("name", "hint"), [("match-prob", '"match_prob"'), ("Mean", '"mean"'), ("", "csd"), ("?", "csd")]
)
def test_an_unknown_name_lists_the_known_ones(name, hint):
    with pytest.raises(ConfigError) as caught:
        scores.create(name)
    assert all(known in str(caught.value) for known in (f'"{name}"', hint, *scores.names()))


@pytest.mark.parametrize(
    ("name", "parameter", "words"),
    [
        ("match_prob", "sample", ['"samples"?', "scale, shift, method"]),
        ("overlap", "bias", ["scale, shift"]),
        ("csd", "scale", ['"csd"', "no fields"]),
    ],
)
def test_an_unknown_parameter_lists_the_known_ones(name, parameter, words):
    with pytest.raises(ConfigError) as caught:
        scores.create(name, **{parameter: 1})
    assert all(word in str(caught.value) for word in (parameter, *words))


PROBABILITIES = ("match_prob", "overlap", "csd_prob")
BAD_VALUES = [
    *((name, "scale", bad) for name in PROBABILITIES for bad in (0.0, -5.0, math.nan, math.inf)),
    *((name, "shift", bad) for name in PROBABILITIES for bad in (math.nan, math.inf, -math.inf)),
    *((name, "samples", bad) for name in ("match_prob", "nearest", "average_l2") for bad in (0, -3)),
    pytest.param("match_prob", "method", "exact", marks=unless_annotations_are_enforced),
]


@pytest.mark.parametrize(("name", "field", "value"), BAD_VALUES)
def test_a_bad_value_is_named(name, field, value):
    with pytest.raises(ConfigError) as caught:
        scores.create(name, **{field: value})
    assert all(word in str(caught.value) for word in (name, field, str(value)))


def test_a_spread_beyond_any_precision_is_refused_rather_than_ranked():
    """σ from e⁻²⁰⁰ to e²⁰⁰ in one dimension: no score of a density is a number any more."""
    wild = Gaussian(torch.zeros(2, 1), torch.tensor([[-200.0], [200.0]]))
    for name in ("elk", "bhattacharyya", "overlap"):
        with pytest.raises(PcmeError, match="log_sigma"):
            scores.create(name)(wild, wild)
