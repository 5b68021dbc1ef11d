"""A gallery averaged over neighbours: against a loop, and in a world where it must help."""

import numpy as np
import pytest
import torch

from pcme import Matches, scores
from pcme.embedding import Gaussian, Points
from pcme.errors import ConfigError
from pcme.retrieval import metrics
from studies.real.neighbours import averaged


def drawn(count=40, dim=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return Gaussian(torch.randn(count, dim, generator=generator), torch.randn(count, dim, generator=generator) / 4 - 1)


def by_loop(items, count):
    means, widths = [], []
    for i in range(len(items)):
        order = sorted(range(len(items)), key=lambda j: ((items.mean[i] - items.mean[j]).square().sum(), j))
        near = items[order[:count]]
        centre = near.mean.mean(0)
        means.append(centre / centre.norm() * near.mean.norm(dim=1).mean())
        widths.append(near.log_sigma.mean(0))
    return Gaussian(torch.stack(means), torch.stack(widths))


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_it_is_the_loop(count):
    items = drawn()
    found, expected = averaged(items, count), by_loop(items, count)
    torch.testing.assert_close(found.mean, expected.mean)
    torch.testing.assert_close(found.log_sigma, expected.log_sigma)


def test_points_are_averaged_like_means_and_isotropic_stays_isotropic():
    items = drawn()
    found = averaged(Points(items.mean[:, None]), 5)
    torch.testing.assert_close(found.x[:, 0], averaged(items, 5).mean)
    flat = Gaussian(items.mean, items.log_sigma[:, :1])
    assert averaged(flat, 3).log_sigma.shape == (len(items), 1)


def test_what_is_an_items_own_cancels():
    generator = torch.Generator().manual_seed(1)
    classes = torch.arange(10).repeat_interleave(30)
    centres = torch.randn(10, 32, generator=generator)
    own = torch.randn(300, 32, generator=generator)
    gallery = Points((centres[classes] + own)[:, None])
    queries = Points((centres + 1.5 * torch.randn(10, 32, generator=generator))[:, None])
    matches = Matches.from_dense(np.arange(10)[:, None] == classes.numpy()[None])

    def precision(items):
        return metrics.r_precision(scores.create("mean")(queries, items), matches).mean()

    assert precision(averaged(gallery, 10)) > precision(gallery) + 0.05


@pytest.mark.parametrize(
    ("items", "count", "message"),
    [(drawn(), 0, "got 0"), (drawn(), 41, "got 41"), (Points(torch.zeros(4, 3, 2)), 2, "3 points")],
)
def test_counts_that_cannot_be_and_several_points_an_item_are_refused(items, count, message):
    with pytest.raises(ConfigError, match=message):
        averaged(items, count)
