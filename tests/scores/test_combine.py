"""Combined queries: the product against integrals, probabilities against loops, laws of sets."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from pcme import Gaussian, Points, scores
from pcme.errors import ConfigError, ShapeError
from pcme.scores.combine import One, all_of, any_of, but_not, product
from tests.helpers import random_gaussians, unless_annotations_are_enforced

SCORE = scores.create("csd_prob", scale=2.0, shift=3.0)
GALLERY = random_gaussians(9, 3, seed=5, dtype=torch.float64)
seeds = st.integers(0, 10_000)
numbers = st.tuples(st.floats(-2, 2), st.floats(-2, 1))


def queries(seed, rows=1):
    """Three embeddings."""
    return [random_gaussians(rows, 3, seed=seed + i, log_sigma=-1.0, spread=0.5, dtype=torch.float64) for i in range(3)]


def alike(left, right):
    torch.testing.assert_close(left.mean, right.mean)
    torch.testing.assert_close(left.log_sigma, right.log_sigma)


def p_of(query, **options):
    return np.exp(query.log_probability(SCORE, GALLERY, **options))


@given(st.lists(numbers, min_size=2, max_size=4))
def test_the_product_is_that_of_the_densities(parts):
    values = torch.tensor(parts, dtype=torch.float64)
    found = product([Gaussian(m.view(1, 1), s.view(1, 1)) for m, s in values])

    def density(x):
        return np.prod([stats.norm.pdf(x, m, np.exp(s)) for m, s in parts], axis=0)

    x = np.linspace(-1, 1, 20_001) * 12 * found.sigma.item() + found.mean.item()
    whole = integrate.simpson(density(x), x=x)
    mean = integrate.simpson(x * density(x), x=x) / whole
    variance = integrate.simpson((x - mean) ** 2 * density(x), x=x) / whole
    assert found.mean.item() == pytest.approx(mean, abs=1e-6)
    assert found.variance.item() == pytest.approx(variance, rel=1e-6)


@given(seeds)
def test_the_product_commutes_associates_and_narrows(seed):
    a, b, c = queries(seed, rows=4)
    alike(product([a, b, c]), product([c, a, b]))
    alike(product([product([a, b]), c]), product([a, product([b, c])]))
    alike(product([a]), a)
    assert torch.all(product([a, b]).log_sigma <= torch.minimum(a.log_sigma, b.log_sigma) + 1e-12)


def test_the_product_does_not_underflow_and_keeps_one_width_for_all_dimensions():
    narrow = Gaussian(torch.ones(1, 3), torch.full((1, 1), -80.0))
    wide = Gaussian(torch.zeros(1, 3), torch.full((1, 1), 40.0))
    found = product([narrow, wide])
    alike(found, narrow)
    assert found.log_sigma.shape == (1, 1)
    assert product([narrow, queries(0)[0].to(torch.float32)]).log_sigma.shape == (1, 3)


@given(seeds)
def test_probabilities_are_those_of_a_loop(seed):
    a, b, c = queries(seed)
    p, q, r = (np.exp(SCORE(x, GALLERY).numpy())[0] for x in (a, b, c))
    found = {
        "all": p_of(all_of([a, b, c])),
        "any": p_of(any_of([a, b, c])),
        "not": p_of(but_not(a, b)),
        "nested": p_of(all_of([any_of([a, b]), but_not(b, c)])),
    }
    for i in range(len(GALLERY)):
        assert found["all"][i] == pytest.approx(p[i] * q[i] * r[i])
        assert found["any"][i] == pytest.approx(1 - (1 - p[i]) * (1 - q[i]) * (1 - r[i]))
        assert found["not"][i] == pytest.approx(p[i] * (1 - q[i]))
        either, second_only = 1 - (1 - p[i]) * (1 - q[i]), q[i] * (1 - r[i])
        assert found["nested"][i] == pytest.approx(either * second_only)


@given(seeds)
def test_laws_of_sets(seed):
    a, b, c = queries(seed)
    np.testing.assert_allclose(p_of(all_of([a, b, c])), p_of(all_of([c, all_of([b, a])])))
    np.testing.assert_allclose(p_of(any_of([a, b, c])), p_of(any_of([any_of([c, a]), b])))
    np.testing.assert_allclose(p_of(but_not(a, any_of([b, c]))), p_of(but_not(but_not(a, b), c)))
    whole = p_of(but_not(a, b)) + p_of(all_of([a, b]))
    np.testing.assert_allclose(whole, p_of(One(a)))
    assert np.all(p_of(all_of([a, b])) <= p_of(One(a)))
    assert np.all(p_of(any_of([a, b])) >= p_of(One(a)))


def test_certainty_stays_finite():
    here = Gaussian(torch.zeros(1, 3), torch.full((1, 3), -30.0))
    sure = scores.create("csd_prob", scale=2.0, shift=200.0)
    for query in (but_not(here, here), any_of([here, here]), all_of([here, here])):
        log_p = query.log_probability(sure, here)
        assert np.isfinite(log_p).all()
        assert np.all(log_p <= 0)
    assert np.exp(but_not(here, here).log_probability(sure, here)) == pytest.approx(0, abs=1e-6)


def test_every_leaf_is_calibrated_before_they_are_combined():
    a, b, _ = queries(0)

    def halved(log_p):
        return np.asarray(log_p) - np.log(2)

    p, q = p_of(One(a)), p_of(One(b))
    np.testing.assert_allclose(p_of(all_of([a, b]), calibrate=halved), p / 2 * q / 2)
    np.testing.assert_allclose(p_of(but_not(a, b), calibrate=halved), p / 2 * (1 - q / 2))
    whole = np.exp(SCORE(product([a, b]), GALLERY).numpy())[0] / 2
    np.testing.assert_allclose(p_of(all_of([a, b], how="density"), calibrate=halved), whole)


def test_queries_side_by_side_are_those_one_by_one():
    a, b, c = queries(3, rows=4)
    both = all_of([any_of([a, b]), c]).log_probabilities(SCORE, GALLERY)
    for row in range(4):
        single = all_of([any_of([a[row], b[row]]), c[row]])
        np.testing.assert_allclose(single.log_probability(SCORE, GALLERY), both[row])
    with pytest.raises(ShapeError, match="one query, got 4"):
        One(a).log_probability(SCORE, GALLERY)


def test_texts_are_encoded_and_embeddings_are_kept():
    a, b, c = queries(1)
    known = {"red": a, "long": b}
    query = all_of([but_not("red", "long"), all_of(["long", c], how="density")])
    encoded = query.encoded(known.__getitem__)
    expected = all_of([but_not(a, b), product([b, c])])
    np.testing.assert_allclose(p_of(encoded), p_of(expected))
    assert [leaf.item for leaf in query.leaves()] == ["red", "long", "long", c]
    assert repr(query) == '(("red" but not "long") and ("long" × <Gaussian>))'


def test_proposals_are_of_what_is_wanted():
    a, b, c = queries(2)
    assert One(a).proposals() == [a]
    assert any_of([a, b]).proposals() == [a, b]
    assert but_not(a, b).proposals() == [a]
    first, *rest = all_of([a, but_not(b, c)]).proposals()
    alike(first, product([a, b]))
    assert rest == [a, b]
    assert all_of([a, any_of([b, c])]).proposals() == [a, b, c]
    (only,) = all_of([a, b], how="density").proposals()
    alike(only, product([a, b]))


def test_points_combine_by_probability_only():
    x = Points(torch.zeros(1, 1, 3))
    score = scores.create("match_prob", scale=2.0, shift=3.0, method="sampled")
    both = all_of([x, x]).log_probability(score, x)
    np.testing.assert_allclose(both, 2 * One(x).log_probability(score, x))
    assert all_of([x, x]).proposals() == [x, x]
    with pytest.raises(ConfigError, match="no density to multiply"):
        all_of([x, x], how="density").log_probability(score, x)


@unless_annotations_are_enforced
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: all_of([]), ConfigError, "at least one part"),
        (lambda: any_of("a red bird"), ConfigError, "takes a list"),
        (lambda: all_of(["a", "b"], how="sum"), ConfigError, "probability, density"),
        (lambda: One("red").log_probability(SCORE, GALLERY), ConfigError, "not encoded"),
        (lambda: all_of(["a", "b"], how="density").proposals(), ConfigError, "not encoded"),
        (lambda: One(GALLERY).log_probabilities(scores.create("kl"), GALLERY), ConfigError, "not a match probability"),
        (lambda: product([]), ShapeError, "one or more"),
        (lambda: product([GALLERY[0], GALLERY]), ShapeError, "of one shape"),
    ],
)
def test_mistakes_are_explained(call, error, message):
    with pytest.raises(error, match=message):
        call()
