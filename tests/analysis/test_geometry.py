"""geometry: covers, projections and regions against samples."""

import numpy as np
import pytest
import torch

from pcme import Gaussian
from pcme.analysis.geometry import Shape, cover, ellipse, inside, main_plane, project
from tests.helpers import random_gaussians


def gaussians(n, dim, seed, log_sigma=-1.0):
    return random_gaussians(n, dim, seed=seed, log_sigma=log_sigma, dtype=torch.float64)


def test_a_cover_is_the_share_of_samples_within():
    inner, outer = gaussians(1, 4, 0), gaussians(1, 4, 1, log_sigma=-0.5)
    drawn = inner.sample(100_000, torch.Generator().manual_seed(2)).x[0]
    within = ((drawn - outer.mean).abs() <= 1.96 * outer.sigma).double().mean()
    assert cover(inner, outer).item() == pytest.approx(within.item(), abs=5e-3)
    assert cover(outer, outer).item() == pytest.approx(0.95)


def test_a_projection_has_the_mean_and_covariance_of_projected_samples():
    items = gaussians(40, 5, 0)
    plane = main_plane(items)
    (shape,) = project([("one", items[3])], plane)
    drawn = items[3].sample(200_000, torch.Generator().manual_seed(1)).x[0].numpy() @ plane.T
    np.testing.assert_allclose(shape.mean, drawn.mean(0), atol=0.01)
    spread = np.cov(drawn.T)
    np.testing.assert_allclose(shape.covariance, [spread[0, 0], spread[0, 1], spread[1, 1]], atol=0.01)


def test_the_main_plane_is_where_the_means_differ():
    generator = torch.Generator().manual_seed(0)
    spread = torch.tensor([0.1, 5.0, 0.1, 1.0])
    means = torch.randn(300, 4, generator=generator) * spread
    plane = main_plane(Gaussian(means, torch.zeros(300, 4)))
    np.testing.assert_allclose(plane @ plane.T, np.eye(2), atol=1e-9)
    assert abs(plane[0, 1]) > 0.99
    assert abs(plane[1, 3]) > 0.99


@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_region_holds_its_share_of_the_mass(share, dim):
    items = gaussians(3, dim, 0)
    drawn = items.sample(20_000, torch.Generator().manual_seed(1)).x
    error = 5 * np.sqrt(share * (1 - share) / 20_000)
    for number, points in enumerate(drawn):
        assert inside(items, points, share)[number].mean() == pytest.approx(share, abs=error)
    isotropic = Gaussian(items.mean, items.log_sigma[:, :1])
    spread_out = Gaussian(items.mean, items.log_sigma[:, :1].expand(-1, dim))
    assert np.array_equal(inside(isotropic, drawn[0], share), inside(spread_out, drawn[0], share))


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_an_ellipse_holds_its_share_of_a_shape_that_lies_askew(share):
    shape = Shape("askew", (1.0, -2.0), (0.5, 0.3, 0.4))
    (xx, xy, yy), generator = shape.covariance, np.random.default_rng(0)
    drawn = generator.multivariate_normal(shape.mean, [[xx, xy], [xy, yy]], 20_000)
    within = ellipse(shape, share).contains_points(drawn)
    assert within.mean() == pytest.approx(share, abs=5 * np.sqrt(share * (1 - share) / 20_000))
