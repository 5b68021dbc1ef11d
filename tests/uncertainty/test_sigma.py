"""Bins of σ: against direct computation."""

import numpy as np
import pytest
import torch

from pcme import Points
from pcme.errors import DataError, ShapeError
from pcme.uncertainty.sigma import bin_by_sigma, mean_log_sigma


def test_bins_against_a_loop():
    generator = np.random.default_rng(0)
    widths, values = generator.normal(size=103), generator.random(103)
    bins = bin_by_sigma(widths, values, bins=7)
    order = sorted(range(103), key=lambda i: widths[i])
    for width, value, size in zip(bins.width, bins.value, [15] * 5 + [14] * 2, strict=True):
        rows, order = order[:size], order[size:]
        assert value == pytest.approx(np.mean([values[i] for i in rows]))
        assert width == pytest.approx(np.median([widths[i] for i in rows]))
    assert bin_by_sigma(widths, -widths).correlation == pytest.approx(-1)


@pytest.mark.parametrize(("values", "bins"), [(np.ones(3), 2), (np.ones(4), 5), (np.ones(4), 0)])
def test_bins_that_cannot_be_made_and_points_are_refused(values, bins):
    with pytest.raises(ShapeError, match="bin"):
        bin_by_sigma(np.ones(4), values, bins=bins)
    with pytest.raises(DataError, match="sigma"):
        mean_log_sigma(Points(torch.zeros(2, 1, 3)))
