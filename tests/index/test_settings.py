"""Settings: which embeddings fit an index, and which scores."""

import pytest
import torch

from pcme import Gaussian, Points, SearchIndex
from pcme.errors import ConfigError, DataError, ShapeError
from tests.helpers import random_gaussians
from tests.index.worlds import drawn


def test_points_among_gaussians_have_no_spread(tmp_path):
    index, items = drawn(tmp_path / "index")
    index.add(Points(items.mean[:1, None]), ids=["point"])
    query = Gaussian(items.mean[:1], items.log_sigma[:1])
    assert index.search(query, k=1).ids == ["point"]  # as near as 00000, and narrower
    assert index.search(Points(items.mean[:1, None]), k=1).ids == ["point"]


def test_points_do_not_go_with_densities(tmp_path):
    index, _ = drawn(tmp_path / "index", score="overlap")
    with pytest.raises(ShapeError, match="divides by σ"):
        index.add(Points(torch.zeros(1, 1, 4)), ids=["point"])
    with pytest.raises(ConfigError, match="points have none"):
        SearchIndex.create(tmp_path / "other", dim=4, score="overlap")


def test_embeddings_that_do_not_fit_are_errors(tmp_path):
    index, _ = drawn(tmp_path / "index")
    with pytest.raises(ShapeError, match="dimension 4, got 5"):
        index.add(random_gaussians(1, 5, seed=0), ids=["x"])
    broken = Gaussian(torch.full((1, 4), torch.nan), torch.zeros(1, 4))
    with pytest.raises(DataError, match="NaN or infinite"):
        index.add(broken, ids=["x"])
    assert len(index) == 50
