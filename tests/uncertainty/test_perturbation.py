"""σ of perturbed items: in the limits."""

import numpy as np

from pcme.data.problems import Problems
from pcme.evaluation import embed
from pcme.uncertainty.perturbation import RATIOS, perturbed_log_sigma
from tests.models import untrained
from tests.uncertainty.worlds import aviary


def test_erasing_nothing_changes_nothing_and_all_makes_images_alike():
    model, dataset = untrained(), aviary()
    captions, images = perturbed_log_sigma(model, dataset)
    assert captions.shape == (len(dataset.captions), len(RATIOS))
    assert images.shape == (len(dataset.images), len(RATIOS))
    clean = embed(model, dataset, Problems())
    for log_sigma, items in ((captions, clean.captions), (images, clean.images)):
        expected = np.sort(items.log_sigma.double().mean(1).numpy())
        np.testing.assert_allclose(np.sort(log_sigma[:, 0]), expected, atol=1e-5)
    assert np.ptp(images[:, -1]) < 1e-5
    assert np.ptp(images[:, 0]) > 1e-4
