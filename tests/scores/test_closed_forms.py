"""Every closed form against what it claims to be: integrals in one dimension, other formulas in D.

Nothing here shares a line with the code under test. Monte Carlo bands are 5 standard errors wide
and seeded; quadrature is good to about 1e-10.
"""

import math
from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
import torch
from scipy import integrate, stats
from torch.distributions import Independent, MultivariateNormal, Normal, kl_divergence

from pcme import Gaussian, scores
from tests.helpers import random_gaussians

STANDARD_ERRORS = 5
DRAWS = 100_000
SCALE, SHIFT = 7.0, -3.0  # of `overlap`, away from its defaults

# (μ₁, σ₁, μ₂, σ₂): equal, shifted, wider, narrower, both, far apart, and a hundredfold spread
PAIRS = [
    (0.3, 0.5, 0.3, 0.5),
    (0.0, 1.0, 1.5, 1.0),
    (0.2, 0.4, 0.2, 1.7),
    (0.2, 1.7, 0.2, 0.4),
    (-1.0, 0.3, 0.7, 0.9),
    (-2.0, 0.6, 2.0, 0.5),
    (0.1, 0.05, -0.2, 5.0),
]


def integral(f, pair):
    """∫ f over where either density lives, split at both means and their spreads."""
    m1, s1, m2, s2 = pair
    ends = sorted({m + r * s for m, s in ((m1, s1), (m2, s2)) for r in (-14, -3, 0, 3, 14)})
    return math.fsum(integrate.quad(f, a, b, epsabs=1e-14, epsrel=1e-12, limit=200)[0] for a, b in pairwise(ends))


def log_density(x, mean, sigma):
    return -0.5 * ((x - mean) / sigma) ** 2 - math.log(sigma) - 0.5 * math.log(2 * math.pi)


def mean_distance(pair):
    m1, s1, m2, s2 = pair
    first, second = (
        integral(lambda x, m=m, s=s: x * math.exp(log_density(x, m, s)), pair) for m, s in ((m1, s1), (m2, s2))
    )
    return -((first - second) ** 2)


def wasserstein(pair):
    """W₂² = ∫₀¹ (F₁⁻¹(u) - F₂⁻¹(u))² du, u = Φ(z); the upper half as the mirrored lower one.

    Quantiles lose their digits as u nears 1, but not as it nears 0.
    """

    def lower_half(m1, s1, m2, s2):
        def cost(z):
            u = stats.norm.cdf(z)
            return (stats.norm.ppf(u, m1, s1) - stats.norm.ppf(u, m2, s2)) ** 2 * stats.norm.pdf(z)

        return integrate.quad(cost, -30, 0, epsabs=1e-13)[0]

    m1, s1, m2, s2 = pair
    return -lower_half(m1, s1, m2, s2) - lower_half(-m1, s1, -m2, s2)


def expected_distance(pair):
    m1, s1, m2, s2 = pair

    def inner(x):
        return integral(lambda y: (x - y) ** 2 * math.exp(log_density(y, m2, s2)), (m2, s2, m2, s2))

    # (x - y)² integrates over y to a parabola in x: three points give it exactly
    parabola = np.polyfit([-1.0, 0.0, 1.0], [inner(x) for x in (-1.0, 0.0, 1.0)], 2)
    density = (m1, s1, m1, s1)
    return -integral(lambda x: np.polyval(parabola, x) * math.exp(log_density(x, m1, s1)), density)


def kl(pair):
    m1, s1, m2, s2 = pair

    def integrand(x):
        log_p, log_q = log_density(x, m1, s1), log_density(x, m2, s2)
        return math.exp(log_p) * (log_p - log_q)

    return -integral(integrand, (m1, s1, m1, s1))


def swapped(pair):
    return (*pair[2:], *pair[:2])


def power_integral(pair, power):
    """log ∫ (p q)^power."""
    m1, s1, m2, s2 = pair
    peak = (m1 / s1**2 + m2 / s2**2) / (1 / s1**2 + 1 / s2**2)
    width = (power * (1 / s1**2 + 1 / s2**2)) ** -0.5

    def integrand(x):
        return math.exp(power * (log_density(x, m1, s1) + log_density(x, m2, s2)))

    return math.log(integral(integrand, (peak, width, peak, width)))


def overlap(pair):
    """sigmoid(b + a log ∫pq) in one dimension, once log 2π is taken out of the integral."""
    logit = SHIFT + SCALE * (power_integral(pair, 1.0) + 0.5 * math.log(2 * math.pi))
    return -math.log1p(math.exp(-logit))


DEFINITIONS = {
    "mean": mean_distance,
    "w2": wasserstein,
    "csd": expected_distance,
    "kl": kl,
    "reverse_kl": lambda pair: kl(swapped(pair)),
    "jeffreys": lambda pair: (kl(pair) + kl(swapped(pair))) / 2,
    "elk": lambda pair: power_integral(pair, 1.0),
    "bhattacharyya": lambda pair: power_integral(pair, 0.5),
    "overlap": overlap,
}


def create(name):
    return scores.create(name, **({"scale": SCALE, "shift": SHIFT} if name == "overlap" else {}))


def items(*pairs):
    """float64 Gaussians in one dimension from (μ, σ)."""
    values = torch.tensor(pairs, dtype=torch.float64)
    return Gaussian(values[:, :1], values[:, 1:].log())


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("name", DEFINITIONS)
def test_in_one_dimension_it_is_the_integral(name, pair):
    score = create(name)(items(pair[:2]), items(pair[2:]))
    assert score.item() == pytest.approx(DEFINITIONS[name](pair), rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("name", sorted(set(DEFINITIONS) - {"overlap"}))
def test_in_d_dimensions_it_is_the_sum_over_dimensions(name):
    queries, gallery = items(*(p[:2] for p in PAIRS)), items(*(p[2:] for p in PAIRS))
    whole = create(name)(Gaussian(queries.mean.T, queries.log_sigma.T), Gaussian(gallery.mean.T, gallery.log_sigma.T))
    expected = math.fsum(DEFINITIONS[name](pair) for pair in PAIRS)
    assert whole.item() == pytest.approx(expected, rel=1e-8)


# D dimensions, all pairs


@pytest.fixture(scope="module", params=[1, 2, 5, 32])
def sides(request):
    """Overlapping spreads, so that no expectation is dominated by a few draws."""
    queries = random_gaussians(6, request.param, seed=1, log_sigma=-0.6, dtype=torch.float64)
    gallery = random_gaussians(7, request.param, seed=2, log_sigma=-0.3, dtype=torch.float64)
    return queries, gallery


def independent(side, where):
    """torch's distributions, [n, 1] or [n] with event [d]."""
    mean, sigma = side.mean, side.log_sigma.exp()
    return Independent(Normal(mean[where], sigma[where]), 1)


QUERIES, GALLERY = (slice(None), None), (None, slice(None))


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def test_kl_is_that_of_torch_distributions(sides):
    p, q = independent(sides[0], QUERIES), independent(sides[1], GALLERY)
    there, back = kl_divergence(p, q), kl_divergence(q, p)
    close(create("kl")(*sides), -there)
    close(create("reverse_kl")(*sides), -back)
    close(create("jeffreys")(*sides), -(there + back) / 2)


def covariance(side):
    return torch.diag_embed((2 * side.log_sigma).exp())


def test_w2_is_the_bures_distance(sides):
    def squared(m1, c1, m2, c2):
        root = scipy.linalg.sqrtm(c1)
        cross = scipy.linalg.sqrtm(root @ c2 @ root)
        return ((m1 - m2) ** 2).sum() + np.trace(c1 + c2 - 2 * cross).real

    parts = [[(m, c) for m, c in zip(s.mean.numpy(), covariance(s).numpy(), strict=True)] for s in sides]
    expected = [[-squared(*p, *q) for q in parts[1]] for p in parts[0]]
    close(create("w2")(*sides), torch.tensor(expected))


def test_elk_is_the_density_of_the_difference(sides):
    total = (covariance(sides[0])[:, None] + covariance(sides[1])[None]).contiguous()
    difference = MultivariateNormal(torch.zeros(sides[0].dim).double(), total)
    close(create("elk")(*sides), difference.log_prob(sides[0].mean[:, None] - sides[1].mean))


def test_bhattacharyya_is_the_textbook_distance(sides):
    c1, c2 = covariance(sides[0])[:, None], covariance(sides[1])[None]
    middle = (c1 + c2) / 2
    delta = sides[0].mean[:, None] - sides[1].mean
    mahalanobis = (delta * torch.linalg.solve(middle, delta)).sum(-1)
    volumes = torch.logdet(middle) - (torch.logdet(c1) + torch.logdet(c2)) / 2
    close(create("bhattacharyya")(*sides), -mahalanobis / 8 - volumes / 2)


def test_overlap_is_the_squashed_elk(sides):
    dim = sides[0].dim
    per_dimension = create("elk")(*sides) / dim + 0.5 * math.log(2 * math.pi)
    close(create("overlap")(*sides), torch.log(torch.sigmoid(SHIFT + SCALE * per_dimension)))


def test_squared_distances_are_those_of_cdist(sides):
    squared = torch.cdist(sides[0].mean, sides[1].mean).square()
    traces = [covariance(side).diagonal(dim1=-2, dim2=-1).sum(-1) for side in sides]
    close(create("mean")(*sides), -squared)
    close(create("csd")(*sides), -squared - traces[0][:, None] - traces[1])


# Expectations, by Monte Carlo


def check_expectation(values, expected):
    """`values` [draws, q, g] average to `expected`, and the band is narrow enough to mean it."""
    error = values.std(0) / math.sqrt(len(values))
    assert (error < 0.02 * expected.abs() + 1e-3).all()
    assert ((values.mean(0) - expected).abs() < STANDARD_ERRORS * error).all()


def drawn(side, seed):
    generator = torch.Generator().manual_seed(seed)
    return side.sample(DRAWS, generator).x.transpose(0, 1)  # [draws, n, d]


@pytest.fixture(scope="module")
def small_sides():
    queries = random_gaussians(3, 4, seed=3, log_sigma=-0.5, dtype=torch.float64)
    gallery = random_gaussians(4, 4, seed=4, log_sigma=-0.3, dtype=torch.float64)
    return queries, gallery


def test_csd_is_the_expected_squared_distance(small_sides):
    x, y = drawn(small_sides[0], 5), drawn(small_sides[1], 6)
    squared = (x[:, :, None] - y[:, None]).square().sum(-1)
    check_expectation(squared, -create("csd")(*small_sides))


def test_kl_is_an_expected_log_ratio(small_sides):
    x = drawn(small_sides[0], 5)[:, :, None]
    p, q = independent(small_sides[0], QUERIES), independent(small_sides[1], GALLERY)
    check_expectation(p.log_prob(x) - q.log_prob(x), -create("kl")(*small_sides))


def test_elk_is_an_expected_density(small_sides):
    x = drawn(small_sides[0], 5)[:, :, None]
    q = independent(small_sides[1], GALLERY)
    check_expectation(q.log_prob(x).exp(), create("elk")(*small_sides).exp())


def test_bhattacharyya_is_an_expected_root_of_a_ratio(small_sides):
    x = drawn(small_sides[0], 5)[:, :, None]
    p, q = independent(small_sides[0], QUERIES), independent(small_sides[1], GALLERY)
    ratio = ((q.log_prob(x) - p.log_prob(x)) / 2).exp()
    check_expectation(ratio, create("bhattacharyya")(*small_sides).exp())


# Limits and relations that the docstrings state


def point_masses(n, dim, *, seed, log_sigma):
    means = random_gaussians(n, dim, seed=seed, dtype=torch.float64).mean
    return Gaussian(means, torch.full((n, 1), log_sigma, dtype=torch.float64))


def test_w2_is_mean_when_all_spreads_are_equal():
    sides = [point_masses(5, 3, seed=s, log_sigma=-1.0) for s in (0, 1)]
    close(create("w2")(*sides), create("mean")(*sides))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("log_sigma", [-13.0, -60.0])
@pytest.mark.parametrize("method", ["analytic", "sampled"])
def test_match_prob_is_the_sigmoid_for_points(method, log_sigma, dtype):
    """J → ∞ and σ → 0: p = sigmoid(b - a ‖μ₁-μ₂‖), coinciding means included."""
    queries = point_masses(5, 3, seed=0, log_sigma=log_sigma)
    gallery = Gaussian.cat([point_masses(6, 3, seed=1, log_sigma=log_sigma), queries[:2]])
    score = scores.create("match_prob", scale=4.0, shift=3.0, method=method)
    actual = score(queries.to(dtype), gallery.to(dtype)).double()
    logits = 3.0 - 4.0 * torch.cdist(queries.mean, gallery.mean)
    torch.testing.assert_close(actual, torch.log(torch.sigmoid(logits)), rtol=0, atol=2e-4)


def test_average_l2_is_the_distance_for_points():
    queries, gallery = (point_masses(5, 3, seed=s, log_sigma=-13.0) for s in (0, 1))
    actual = scores.create("average_l2")(queries, gallery)
    torch.testing.assert_close(actual, -torch.cdist(queries.mean, gallery.mean), rtol=0, atol=1e-5)


def test_the_sampled_match_prob_converges_to_the_analytic_one(small_sides):
    sampled = scores.create("match_prob", scale=2.0, shift=3.0, method="sampled", samples=400)
    analytic = scores.create("match_prob", scale=2.0, shift=3.0)
    # 400 draws a side: the error of a mean over both is at most (0.5²/400 + 0.5²/400)^½ = 0.035
    gap = sampled.probability(*small_sides) - analytic.probability(*small_sides)
    assert gap.abs().max() < STANDARD_ERRORS * 0.035
    few = scores.create("match_prob", scale=2.0, shift=3.0, method="sampled", samples=4)
    assert gap.abs().mean() < (few(*small_sides).exp() - analytic(*small_sides).exp()).abs().mean()


def test_average_l2_is_an_expected_distance(small_sides):
    x, y = drawn(small_sides[0], 5), drawn(small_sides[1], 6)
    distance = (x[:, :, None] - y[:, None]).square().sum(-1).sqrt()
    seeds = [scores.create("average_l2", samples=32, seed=s)(*small_sides) for s in range(40)]
    ours = torch.stack(seeds)
    error = (ours.var(0) / len(seeds) + distance.var(0) / len(distance)).sqrt()
    assert ((ours.mean(0) + distance.mean(0)).abs() < STANDARD_ERRORS * error).all()
