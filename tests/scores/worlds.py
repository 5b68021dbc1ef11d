"""What several tests of scores need: embeddings, rankings, the scores by kind, galleries, bounds."""

from dataclasses import dataclass

import pytest
import torch

from pcme import Gaussian, scores
from pcme.retrieval.ranking import Ranking
from pcme.scores.gallery import Fixed
from pcme.scores.plans import Normal
from tests.helpers import random_gaussians

DTYPES = [torch.float32, torch.float64]
SCORES = [scores.create(name) for name in scores.names()]
SCORES.append(scores.create("match_prob", method="sampled"))
SAMPLED = [score for score in SCORES if score.positional]
FORMULAS = [score for score in SCORES if not score.positional]


def over(name, values):
    return pytest.mark.parametrize(name, values, ids=repr)


def sides(dtype=torch.float32, *, queries=9, items=23, dim=6, log_sigma=-1.5):
    """A few items whose spreads matter."""
    return (
        random_gaussians(queries, dim, seed=1, log_sigma=log_sigma, spread=0.5, dtype=dtype),
        random_gaussians(items, dim, seed=2, log_sigma=log_sigma, spread=0.5, dtype=dtype),
    )


def normals(items):
    """What a formula sees."""
    return Normal(items.mean.double(), items.log_sigma.double().expand(items.mean.shape))


def facts(score):
    """What other packages ask of a score."""
    flags = score.symmetric, score.divides_by_sigma, score.is_log_probability
    return (*flags, score.orders_like, score.max_points, score.positional)


def clustered(count, *, seed, dim=24, spread=0.4, log_sigma=-2.0, uneven=0.5):
    """Items in clusters of ten, of uneven width: neighbours are near, as in a trained space."""
    centres = random_gaussians(-(-count // 10), dim, seed=seed, log_sigma=log_sigma)
    own = random_gaussians(count, dim, seed=seed + 1, log_sigma=log_sigma, spread=uneven)
    mean = centres.mean.repeat_interleave(10, 0)[:count] + spread * own.mean
    return Gaussian(torch.nn.functional.normalize(mean), own.log_sigma)


@dataclass(frozen=True, eq=False)
class Lasting(Fixed):
    """A gallery that several searches follow."""

    lasting = True


def assert_same_ranking(actual, expected):
    """The same ids; the same scores but for the last bit of the precision they come in.

    Near zero that bit is float64's own, of the products that cancelled there.
    """
    assert torch.equal(actual.ids, expected.ids)
    assert actual.gallery_size == expected.gallery_size
    assert actual.scores.dtype == expected.scores.dtype
    rtol = 1.2e-7 if expected.scores.dtype == torch.float32 else 1e-12
    torch.testing.assert_close(actual.scores, expected.scores, rtol=rtol, atol=1e-11)


def assert_exact(score, queries, gallery, k):
    """The top k are the head of the full ranking."""
    expected = Ranking.from_scores(score(queries, gallery), k)
    assert_same_ranking(score.topk(queries, gallery, k=k), expected)


def assert_bounds(scan, queries, near):
    """Every key's bound is at least the score of its item, and as near to it as `near`."""
    items, whole = scan.gallery.embedding, scan.all_kept
    scan.top(queries, 1)  # the scan looks at its gallery
    keys = scan.keys(scan.prepare(queries), items, whole()[0], slice(0, len(items)))
    exact = scan.plan(queries, items).block(slice(0, len(queries)), slice(0, len(items))).double()
    bounds = torch.stack([scan.upper(queries, keys[:, n].double()) for n in range(len(items))], 1)
    assert (bounds >= exact - 1e-6 * exact.abs()).all()
    assert ((bounds - exact) <= near * (1 + exact.abs())).all()


def assert_shortlists(scan, queries, k=10):
    """The rows are those of all scores, most of which were never computed."""
    found, items = scan.top(queries, k), scan.gallery.embedding
    expected = [scan.scores(queries[n], torch.arange(len(items)).numpy()) for n in range(len(queries))]
    assert [one.rows.tolist() for one in found] == Ranking.from_scores(torch.stack(expected), k).ids.tolist()
    assert max(len(one.pool) for one in found) < len(items) / 4
