"""algebra: covers and projections against samples, inclusion where it is and is not."""

import numpy as np
import pytest
import torch

from pcme import ConfigError, Gaussian
from pcme.analysis.algebra import Algebra, cover, main_plane, project, related
from tests.analysis.subjects import subject
from tests.helpers import random_gaussians


def gaussians(n, dim, seed, log_sigma=-1.0):
    return random_gaussians(n, dim, seed=seed, log_sigma=log_sigma, dtype=torch.float64)


def test_a_cover_is_the_share_of_samples_within():
    inner, outer = gaussians(1, 4, 0), gaussians(1, 4, 1, log_sigma=-0.5)
    drawn = inner.sample(100_000, torch.Generator().manual_seed(2)).x[0]
    within = ((drawn - outer.mean).abs() <= 1.96 * outer.sigma).double().mean()
    assert cover(inner, outer).item() == pytest.approx(within.item(), abs=5e-3)


def test_an_item_covers_itself_by_its_central_share():
    items = gaussians(5, 8, 0)
    assert cover(items, items) == pytest.approx(np.full(5, 0.95))


def test_a_projection_has_the_mean_and_covariance_of_projected_samples():
    items = gaussians(40, 5, 0)
    plane = main_plane(items)
    (shape,) = project([("one", items[3])], plane)
    drawn = items[3].sample(200_000, torch.Generator().manual_seed(1)).x[0].numpy() @ plane.T
    np.testing.assert_allclose(shape.mean, drawn.mean(0), atol=0.01)
    spread = np.cov(drawn.T)
    np.testing.assert_allclose(
        shape.covariance, [spread[0, 0], spread[0, 1], spread[1, 1]], atol=0.01
    )


def test_the_main_plane_is_where_the_means_differ():
    generator = torch.Generator().manual_seed(0)
    spread = torch.tensor([0.1, 5.0, 0.1, 1.0])
    means = torch.randn(300, 4, generator=generator) * spread
    plane = main_plane(Gaussian(means, torch.zeros(300, 4)))
    np.testing.assert_allclose(plane @ plane.T, np.eye(2), atol=1e-9)
    assert abs(plane[0, 1]) > 0.99
    assert abs(plane[1, 3]) > 0.99


def test_inclusion_holds_for_the_narrow_in_the_wide_and_not_the_other_way():
    narrow, wide = gaussians(20, 6, 0, -3.0), gaussians(20, 6, 0, 0.0)
    texts = [("",)] * 20

    def relation(inner, outer):
        shown = (("inner", inner), ("outer", outer))
        return related(
            "in", ("inner", "outer"), (inner, outer), shown, np.arange(20), texts, among=wide
        )

    assert relation(narrow, wide).backward.value < 0.5 < relation(narrow, wide).forward.value
    assert relation(wide, narrow).holds.value == 0


def test_a_pair_no_nearer_than_another_does_not_hold():
    """What any outer item covers is no sign of a relation with its own."""
    inner, outer = gaussians(20, 6, 0, -3.0), gaussians(20, 6, 1, 3.0)
    shown = (("inner", inner), ("outer", outer))
    found = related(
        "in", ("inner", "outer"), (inner, outer), shown, np.arange(20), [("",)] * 20, among=outer
    )
    assert found.forward.value == pytest.approx(found.chance.value, abs=0.01)
    assert found.holds.value < 0.9


def test_four_relations_where_there_are_pixels_and_words():
    found = Algebra(pairs=10).compute(subject())
    assert [relation.pairs for relation in found.relations] == [10, 10, 10, 10]
    for relation in found.relations:
        assert 0 <= relation.holds.value <= 1
        assert 2 <= len(relation.example.shapes) <= 3


def test_a_share_beyond_the_whole_is_refused():
    with pytest.raises(ConfigError, match="between 0 and 1"):
        Algebra(erased=1.5)
