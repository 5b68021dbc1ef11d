"""What every score must do, for every name in the registry: a new score is tested by existing."""

import dataclasses
import inspect
import json
import math
import os
import subprocess
import sys

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pcme import Gaussian, PcmeError, Points, scores
from pcme.errors import ConfigError, ShapeError
from pcme.kernels import sampled
from pcme.retrieval.ranking import Ranking
from pcme.scores.base import Score
from pcme.scores.plans import PairsPlan
from tests.helpers import generator, random_gaussians
from tests.scores.worlds import (
    DTYPES,
    FORMULAS,
    SAMPLED,
    SCORES,
    assert_exact,
    assert_same_ranking,
    normals,
    over,
    sides,
)

DIVERGENCES = [scores.create(name) for name in ("w2", "kl", "reverse_kl", "jeffreys", "bhattacharyya")]
TINY = 1 << 17  # a memory limit that cuts everything into many blocks


@pytest.mark.usefixtures("eager_shortlist")
@over("score", SCORES)
def test_embeddings_with_a_history_are_ranked_too(score):
    queries, gallery = random_gaussians(9, 6, seed=1), random_gaussians(1800, 6, seed=2)
    with_history = [Gaussian(s.mean.requires_grad_(), s.log_sigma.requires_grad_()) for s in (queries, gallery)]
    assert not score(*with_history).requires_grad
    assert score.topk(*with_history, k=3).ids.shape == (9, 3)


@over("score", SCORES)
def test_its_record_rebuilds_it(score):
    again = scores.registry.from_record(json.loads(json.dumps(score.record())))
    assert again == score
    assert hash(again) == hash(score)
    assert scores.create(score.name, **score.parameters) == score
    for field in dataclasses.fields(score):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(score, field.name, 1)


@pytest.mark.parametrize("name", scores.names())
def test_its_first_line_says_what_it_is(name):
    cls = scores.registry.get(name)
    assert cls.__doc__ != inspect.getdoc(Score)
    assert len(scores.registry.summary(name)) > 10
    assert scores.registry.summary(name) == cls.__doc__.partition("\n")[0]


@over("dtype", DTYPES)
@over("score", SCORES)
def test_higher_is_better(score, dtype):
    """A tight copy of the query itself beats an item that is far away."""
    queries = random_gaussians(5, 6, seed=0, dtype=dtype)
    away = torch.nn.functional.normalize(torch.ones(6, dtype=dtype), dim=0)
    far = Gaussian(queries.mean + 3 * away, queries.log_sigma)
    result = score(queries, Gaussian.cat([queries, far]))
    assert (result[:, :5].diagonal() > result[:, 5:].diagonal()).all()


@over("dtype", DTYPES)
@over("score", FORMULAS)
def test_it_is_its_formula(score, dtype):
    queries, gallery = sides(dtype)
    expected = PairsPlan(score.pairs, queries, gallery).block(slice(None), slice(None))
    assert (expected.shape, expected.dtype) == ((9, 23), torch.float64)
    close = 1e-4 if dtype == torch.float32 else 1e-9  # densities are computed in the embeddings' own precision
    torch.testing.assert_close(score(queries, gallery).double(), expected, rtol=close, atol=close)


@pytest.mark.parametrize(("far", "dtype"), [(5.0, torch.float64), (1e4, torch.float64), (100.0, torch.float32)])
@over("score", SCORES)
def test_a_common_translation_changes_nothing(score, far, dtype):
    """‖x‖² + ‖y‖² - 2xy would lose all digits: 100² against distances of about 1."""
    sides_here = sides(dtype)
    step = far * torch.linspace(-1, 2, 6, dtype=dtype)
    moved = [Gaussian(side.mean + step, side.log_sigma) for side in sides_here]
    close = 1e-8 if dtype == torch.float64 else 1e-3 if score.positional else 3e-4
    exact = [Gaussian((side.mean - step).double(), side.log_sigma.double()) for side in moved]
    expected = score(*sides_here) if score.positional else score(*exact)
    torch.testing.assert_close(score(*moved).double(), expected.double(), rtol=close, atol=close)


@pytest.mark.usefixtures("eager_shortlist")
@over("score", SCORES)
def test_isotropic_is_diagonal_with_equal_sigmas(score):
    one = [Gaussian(side.mean, side.log_sigma[:, :1]) for side in sides(queries=4, items=2000)]
    wide = [Gaussian(s.mean, s.log_sigma.expand(-1, s.dim).contiguous()) for s in one]
    expected = score(*wide)
    for queries in (one[0], wide[0]):
        for gallery in (one[1], wide[1]):
            torch.testing.assert_close(score(queries, gallery), expected, rtol=1e-6, atol=1e-6)
    assert torch.equal(score.topk(*one, k=4).ids, score.topk(*wide, k=4).ids)


def spread_out(n, log_sigmas, dtype, *, seed):
    items = random_gaussians(n, 5, seed=seed, dtype=dtype)
    values = torch.tensor(log_sigmas, dtype=dtype)
    chosen = torch.randint(len(values), (n, 5), generator=generator(seed))
    return Gaussian(items.mean, values[chosen])


EXTREMES = {"-13": [-13.0], "0": [0.0], "3": [3.0], "mixed": [-13.0, 0.0, 3.0]}


@pytest.mark.usefixtures("eager_shortlist")
@over("dtype", DTYPES)
@pytest.mark.parametrize(
    "kinds", [("-13", "-13"), ("0", "0"), ("3", "3"), ("mixed", "mixed"), ("-13", "3"), ("3", "-13")], ids="/".join
)
@over("score", SCORES)
def test_it_is_finite_at_any_sane_spread(score, kinds, dtype):
    queries, gallery = (spread_out(n, EXTREMES[kind], dtype, seed=n) for n, kind in zip((4, 300), kinds, strict=True))
    gallery = Gaussian.cat([gallery, queries])  # coinciding means, and copies of the query itself
    full = score(queries, gallery)
    assert full.isfinite().all()
    ranking = score.topk(queries, gallery, k=5)
    assert ranking.scores.isfinite().all()
    torch.testing.assert_close(ranking.scores, full.gather(1, ranking.ids), rtol=1e-5, atol=1e-4)


@over("score", FORMULAS)
def test_single_precision_is_enough_when_spreads_and_means_are_large(score):
    """Unnormalised means and an item much wider than the others: no overflow on the way."""
    queries, gallery = random_gaussians(3, 8, seed=1), random_gaussians(40, 8, seed=2)
    wide = torch.full((40, 8), -13.0)
    wide[0] = -4.05
    queries = Gaussian(100 * queries.mean, torch.full((3, 8), -4.05))
    gallery = Gaussian(100 * gallery.mean, wide)
    exact = score(queries.to(torch.float64), gallery.to(torch.float64))
    torch.testing.assert_close(score(queries, gallery).double(), exact, rtol=1e-4, atol=1e-4)


@over("score", SCORES)
def test_it_is_symmetric_if_it_says_so(score):
    """Items whose spreads differ; as samples where it draws them, which are then the same."""
    queries, gallery = sides(torch.float64)
    if score.positional:
        queries, gallery = queries.sample(3, generator()), gallery.sample(3, generator())
    there, back = score(queries, gallery), score(gallery, queries).T
    assert torch.allclose(there, back, rtol=1e-9, atol=1e-9) == score.symmetric


@over("score", [score for score in SCORES if score.orders_like])
def test_it_orders_like_another_whatever_its_parameters(score):
    queries, gallery = sides(torch.float64, items=60)
    like = scores.create(score.orders_like)(queries, gallery)
    for scale, shift in ((score.scale, score.shift), (0.5, -2.0), (3.0, 4.0)):
        other = dataclasses.replace(score, scale=scale, shift=shift)
        assert torch.equal(other(queries, gallery).argsort(1), like.argsort(1))


@over("score", FORMULAS)
def test_it_explodes_as_sigma_vanishes_if_it_divides_by_it(score):
    queries, gallery = (Gaussian(s.mean, torch.full((len(s), 1), -40.0)) for s in sides())
    found = score.pairs(*(normals(side[:9]) for side in (queries, gallery)))
    assert (found.abs().min() > 1e20) == score.divides_by_sigma


@over("score", SCORES)
@over("count", [1, 2])
def test_it_takes_points_if_it_says_so(score, count):
    points = Points(sides()[0].sample(count, generator()).x)
    if score.takes(points):
        assert score(points, points).shape == (9, 9)
    else:
        with pytest.raises(ShapeError, match=type(score).__name__):
            score(points, points)
    assert score.takes(sides()[0])
    suited = score.suited_to(points)
    assert type(suited) is type(score)
    assert suited.takes(points) or suited == score


@over("score", SCORES)
def test_a_value_depends_on_the_position_if_it_says_so(score):
    queries, gallery = sides(torch.float64)
    moved = score(queries, gallery[[*range(1, 23), 0]])
    same = torch.allclose(moved[:, :-1], score(queries, gallery)[:, 1:], atol=1e-6)
    assert same == (not score.positional)


@over("score", SCORES)
def test_its_exponential_is_a_probability_if_it_says_so(score):
    queries, gallery = sides(torch.float64)
    if score.is_log_probability:
        assert torch.equal(score.probability(queries, gallery), score(queries, gallery).exp())
        assert score(queries, gallery).max() <= 0
    else:
        with pytest.raises(ConfigError, match="csd_prob, match_prob, overlap"):
            score.probability(queries, gallery)


coordinates = st.floats(-3, 3)
spreads = st.floats(-3, 1)


@st.composite
def two_gaussians(draw):
    dim = draw(st.integers(1, 4))

    def vector(values):
        entries = draw(st.lists(values, min_size=dim, max_size=dim))
        return torch.tensor([entries], dtype=torch.float64)

    p, q = (Gaussian(vector(coordinates), vector(spreads)) for _ in range(2))
    return p, q


@over("score", DIVERGENCES)
@given(pair=two_gaussians())
@settings(max_examples=25, deadline=None)
def test_a_divergence_is_zero_at_itself_and_negative_elsewhere(score, pair):
    p, q = pair
    assert score(p, Gaussian.cat([p, q]))[0, 0].item() == pytest.approx(0, abs=1e-9)
    apart = max((p.mean - q.mean).abs().max(), (p.log_sigma - q.log_sigma).abs().max())
    assume(apart > 0.01)
    assert score(p, q).item() < -1e-8


@over("dtype", DTYPES)
@pytest.mark.parametrize("shift", [-200.0, -5.0, 0.0, 5.0, 40.0, 200.0])
@over("score", [score for score in SCORES if score.is_log_probability])
def test_a_probability_lies_between_0_and_1(score, shift, dtype):
    score = dataclasses.replace(score, scale=1.5, shift=shift)
    for log_sigma in (-3.6, 0.0):
        both = sides(dtype, items=60, log_sigma=log_sigma)
        probability = score.probability(*both)
        assert 0 <= probability.min() <= probability.max() <= 1
        assert score(*both).isfinite().all()  # far below exp's own range too


@over("dtype", DTYPES)
@over("score", SCORES)
def test_the_block_size_does_not_matter(score, dtype):
    queries, gallery = sides(dtype, queries=70, items=130, dim=7)
    full, cut = score(queries, gallery), score(queries, gallery, memory_limit=TINY)
    assert (full.shape, full.dtype, full.requires_grad) == ((70, 130), dtype, False)
    if score in SAMPLED:
        torch.testing.assert_close(cut, full, rtol=1e-5, atol=1e-5)
    elif dtype == torch.float32:
        assert torch.equal(cut, full)
    else:
        torch.testing.assert_close(cut, full, rtol=1e-12, atol=1e-12)


SIZES = [  # Q, G, D, k
    (1, 1, 1, 1),
    (4, 1, 3, 1),
    (1, 9, 2, 9),
    (5, 40, 3, 40),
    (7, 130, 9, 5),
    (6, 300, 4, 4),  # the smallest gallery that a lifted score shortlists
    (12, 3100, 16, 10),  # and match_prob, which wants more
    (1, 1400, 3, 1),
    (30, 2100, 33, 3),
]


@over("score", SCORES)
def test_blocks_cover_the_matrix_once_and_may_be_written_into_one(score):
    queries, gallery = sides(queries=70, items=130, dim=7)
    out = torch.full((70, 130), math.nan)
    rows = []
    for part, values in score.blocks(queries, gallery, memory_limit=TINY, out=out):
        assert values.data_ptr() == out[part].data_ptr()
        rows += range(part.start, part.stop)
    assert rows == list(range(70))
    parts = [values for _, values in score.blocks(queries, gallery, memory_limit=TINY)]
    assert len(parts) > 1  # else this test, and the one above, would show nothing
    for found in (out, torch.cat(parts)):
        torch.testing.assert_close(found, score(queries, gallery), rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("eager_shortlist")
@over("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES, ids=str)
@over("score", SCORES)
def test_top_k_is_the_head_of_the_full_ranking(score, size, dtype):
    q, g, dim, k = size
    queries = random_gaussians(q, dim, seed=3, dtype=dtype)
    gallery = random_gaussians(g, dim, seed=4, dtype=dtype)
    assert_exact(score, queries, gallery, k)


@pytest.mark.usefixtures("eager_shortlist")
@over("score", SCORES)
def test_top_k_does_not_depend_on_the_memory_limit(score):
    queries = random_gaussians(40, 8, seed=3)
    gallery = random_gaussians(2200, 8, seed=4)
    expected = score.topk(queries, gallery, k=5)
    actual = score.topk(queries, gallery, k=5, memory_limit=1 << 18)
    assert torch.equal(actual.ids, expected.ids)
    torch.testing.assert_close(actual.scores, expected.scores, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("eager_shortlist")
@over("dtype", DTYPES)
@pytest.mark.parametrize("items", [30, 1100])
@over("score", FORMULAS)
def test_ties_go_to_the_lower_id(score, items, dtype):
    """Every item twice or more, in random order; some queries among the items several times."""
    queries, once = (random_gaussians(n, 8, seed=n, dtype=dtype) for n in (10, items))
    gallery = Gaussian.cat([once, once, once[: items // 2], *[queries[:5]] * 3])
    gallery = gallery[torch.randperm(len(gallery), generator=generator(7))]
    ranking = score.topk(queries, gallery, k=8)
    assert_same_ranking(ranking, Ranking.from_scores(score(queries, gallery), 8))
    chosen = gallery[ranking.ids.reshape(-1)].mean.reshape(10, 8, -1)
    twins = (chosen[:, 1:] == chosen[:, :-1]).all(-1)
    assert twins.sum() > 20  # the test sees ties
    assert (ranking.ids[:, 1:] > ranking.ids[:, :-1])[twins].all()


@over("count", [1, 7, 30, 53, 128, 1000])
@over("score", FORMULAS)
def test_equal_items_have_equal_scores_wherever_they_stand(score, count):
    """A matrix product rounds its last columns otherwise on some processors."""
    queries, one = random_gaussians(10, 18, seed=1), random_gaussians(1, 18, seed=2)
    found = score(queries, Gaussian.cat([one] * count))
    assert torch.equal(found, found[:, :1].expand_as(found))


def crowded(dtype, noise):
    """More copies of some queries than a shortlist holds: nothing is proven for these, and all is scored."""
    queries = random_gaussians(9, 8, seed=8, dtype=dtype)
    crowd = Gaussian.cat([queries[[0, 2, 3, 8]]] * 1000)
    near = crowd.mean + noise * torch.randn(4000, 8, generator=generator(1), dtype=dtype)
    gallery = Gaussian.cat([random_gaussians(2000, 8, seed=9, dtype=dtype), Gaussian(near, crowd.log_sigma)])
    return queries, gallery[torch.randperm(6000, generator=generator(7))]


def with_outlier(dtype, columns, log_sigma):
    """An item that breaks every bound that the rest of the gallery obeys, and is somebody's nearest mean."""
    queries, gallery = (random_gaussians(n, 16, seed=seed, dtype=dtype) for n, seed in ((8, 3), (3100, 4)))
    gallery.log_sigma[1234, columns] = log_sigma
    gallery.mean[1234] = queries.mean[2]
    return queries, gallery


AWKWARD = {
    "more ties than any shortlist holds": lambda dtype: crowded(dtype, 0.0),
    "more than single-precision keys can tell apart": lambda dtype: crowded(dtype, 3e-5),
    "all dimensions, huge": lambda dtype: with_outlier(dtype, slice(None), 1.3),
    "one dimension, huge": lambda dtype: with_outlier(dtype, slice(3, 4), 1.3),
    "all dimensions, moderate": lambda dtype: with_outlier(dtype, slice(None), -2.0),
    "one dimension, moderate": lambda dtype: with_outlier(dtype, slice(3, 4), -1.0),
}


@pytest.mark.usefixtures("eager_shortlist")
@over("dtype", DTYPES)
@pytest.mark.parametrize("gallery", AWKWARD)
@over("score", FORMULAS)
def test_top_k_is_exact_in_awkward_galleries(score, gallery, dtype):
    assert_exact(score, *AWKWARD[gallery](dtype), 5)


@pytest.mark.usefixtures("eager_shortlist")
@over("score", FORMULAS)
def test_top_k_of_very_tight_items_is_the_full_ranking_or_an_error(score):
    """Lifted vectors leave the range of float32 here: no shortlist, rather than a wrong one."""
    queries, gallery = sides(torch.float64, queries=4, items=400)
    queries, gallery = (Gaussian(side.mean, torch.full_like(side.mean[:, :1], -45)) for side in (queries, gallery))
    try:
        ranking = score.topk(queries, gallery, k=5)
    except PcmeError:
        return
    assert torch.equal(ranking.ids, Ranking.from_scores(score(queries, gallery), 5).ids)


def test_a_score_of_minus_infinity_is_ranked_as_such():
    """Out of single precision's range: last, and not mistaken for a number."""
    queries = Gaussian(torch.zeros(2, 3), torch.full((2, 1), -45.0))
    gallery = Gaussian(torch.arange(12.0).reshape(4, 3), torch.full((4, 1), -45.0))
    score = scores.create("elk")
    full = score(queries, gallery)
    assert full.isneginf().any()
    assert_exact(score, queries, gallery, 4)


@over("score", SAMPLED)
def test_points_are_taken_as_samples_which_the_seed_fixes(score):
    queries, gallery = sides()
    other = dataclasses.replace(score, seed=score.seed + 1)
    assert not torch.allclose(score(queries, gallery), other(queries, gallery), atol=1e-3)
    draws = [
        Points(sampled.draw(side, slice(0, len(side)), score.samples, seed=score.seed, side=name))
        for side, name in ((queries, "query"), (gallery, "item"))
    ]
    for left in (queries, draws[0]):
        for right in (gallery, draws[1]):
            torch.testing.assert_close(score(left, right), score(queries, gallery))


@pytest.mark.parametrize("same_object", [True, False])
@over("score", SAMPLED)
def test_embeddings_that_know_nothing_retrieve_at_chance(score, same_object):
    """All items alike, so only shared noise could find the partner: R@10 of 500 is 2 %."""
    n, k, seeds = 500, 10, range(4)
    one = Gaussian(torch.full((n, 8), 0.3), torch.full((n, 1), -1.0))
    other = one if same_object else Gaussian(one.mean.clone(), one.log_sigma.clone())
    hits = 0
    for seed in seeds:
        ids = dataclasses.replace(score, seed=seed).topk(one, other, k=k).ids
        hits += (ids == torch.arange(n)[:, None]).sum().item()
    expected = n * len(seeds) * k / n
    assert abs(hits - expected) < 5 * math.sqrt(expected * (1 - k / n))


LIMIT, SLACK = 64, 96  # MiB; the slack is for the allocator, the results and a fixed 32 MiB of keys

MEASURE = """
import json, os, resource, signal, sys
import torch
from pcme import Gaussian, scores

def gaussians(n, dim, log_sigma, seed):
    g = torch.Generator().manual_seed(seed)
    mean = torch.nn.functional.normalize(torch.randn(n, dim, generator=g), dim=1)
    return Gaussian(mean, torch.randn(n, dim, generator=g).mul_(0.3).add_(log_sigma))

def run(score, how, queries, gallery, limit):
    if how == "topk":
        score.topk(queries, gallery, k=10, memory_limit=limit)
    else:
        for _ in score.blocks(queries, gallery, memory_limit=limit):
            pass

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

torch.set_num_threads(1)
limit, cases = json.loads(sys.argv[1])
small = gaussians(3, 8, -3.6, 0), gaussians(4000, 8, -3.6, 1)
for name in ("csd", "elk", "match_prob"):  # loads the compiled loops, once for all
    run(scores.create(name), "topk", *small, limit)
for name, params, how, q, g, dim, log_sigma in cases:
    if os.fork() == 0:
        signal.alarm(60)
        torch.set_num_threads(1)  # makes torch's pool anew; two threads that both find it gone race for it
        score = scores.create(name, **params)
        run(score, how, *small, limit)
        queries, gallery = gaussians(q, dim, log_sigma, 2), gaussians(g, dim, log_sigma, 3)
        before = peak()
        run(score, how, queries, gallery, limit)
        print((peak() - before) / 1024, flush=True)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(f"{name} {how} failed or took more than a minute")
"""

CASES = [  # name, parameters, method, Q, G, D, log σ
    ("csd", {}, "topk", 2000, 20_000, 64, -3.6),
    ("csd", {}, "blocks", 2000, 20_000, 64, -3.6),
    ("match_prob", {}, "topk", 500, 25_000, 64, -3.6),
    ("match_prob", {}, "blocks", 300, 20_000, 64, -3.6),  # rows are cut at about 100
    ("elk", {}, "topk", 1100, 20_000, 64, -3.6),
    ("elk", {}, "blocks", 300, 20_000, 64, -3.6),
    ("average_l2", {}, "topk", 1200, 1000, 64, -3.6),
    ("average_l2", {}, "blocks", 120, 20_000, 64, -3.6),
    # Each of these is long in a different direction.
    ("csd", {}, "topk", 2, 400_000, 64, -3.6),
    ("csd", {}, "blocks", 2, 400_000, 64, -3.6),
    ("csd", {}, "topk", 200_000, 400, 64, -3.6),
    ("elk", {}, "blocks", 2, 400_000, 64, -3.6),
    ("match_prob", {}, "topk", 2, 400_000, 64, -3.6),
    ("match_prob", {}, "blocks", 40, 20_000, 64, 0.0),  # the rule with 80 nodes
    ("average_l2", {"samples": 32}, "topk", 400, 10, 1024, -3.6),
]


@pytest.fixture(scope="module")
def growth():
    """Peak memory of every case above that of its input, in MiB; one process, forked."""
    command = [sys.executable, "-c", MEASURE, json.dumps([LIMIT << 20, CASES])]
    # After a fork torch's pool of threads may be gone: no thread may ask for it.
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=alone)
    assert done.returncode == 0, done.stderr
    return [float(line) for line in done.stdout.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux only")
@pytest.mark.parametrize("case", range(len(CASES)), ids=[str(case) for case in CASES])
def test_memory_stays_under_the_limit(growth, case):
    assert growth[case] < LIMIT + SLACK
