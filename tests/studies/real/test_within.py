"""R-Precision inside one modality against a loop."""

import numpy as np
import pytest
import torch

from pcme import Points, scores
from studies.real.within import within


def test_within_against_a_loop():
    generator = torch.Generator().manual_seed(0)
    items = Points(torch.randn(12, 1, 4, generator=generator))
    classes = np.array([0, 1, 2, 0, 1, 2, 0, 1, 0, 0, 1, 7])
    found = within(scores.create("mean"), items, classes)
    for i in range(12):
        others = [j for j in range(12) if j != i]
        nearest = sorted(others, key=lambda j: float((items.x[i] - items.x[j]).norm()))
        truth = [j for j in others if classes[j] == classes[i]]
        if not truth:
            assert np.isnan(found[i])
            continue
        hits = [classes[j] == classes[i] for j in nearest[: len(truth)]]
        assert found[i] == pytest.approx(np.mean(hits))
