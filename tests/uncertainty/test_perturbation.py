"""σ of spoiled items and bins of σ: against direct computation, and in the limits."""

import numpy as np
import pytest
import torch

from pcme import Points, recipes
from pcme.data.aviary.dataset import Aviary
from pcme.data.problems import Problems
from pcme.data.text.tokens import Vocab
from pcme.errors import DataError, ShapeError
from pcme.evaluation import embed
from pcme.model import Model
from pcme.uncertainty.perturbation import RATIOS, binned, spoiled, width


@pytest.fixture(scope="module")
def dataset():
    return Aviary(pixels=16, test_species=8, test_images=3, captions_per_image=5).load("test")


def untrained(dataset):
    vocab = Vocab.build(dataset.captions, 1)
    vectors = torch.randn(len(vocab), 8, generator=torch.Generator().manual_seed(0))
    return Model(recipes.get("aviary-tiny"), vocab, vectors).eval()


def test_spoiling_nothing_changes_nothing_and_all_makes_captions_alike(dataset):
    model = untrained(dataset)
    captions, images = spoiled(model, dataset)
    assert captions.shape == (len(dataset.captions), len(RATIOS))
    assert images.shape == (len(dataset.images), len(RATIOS))
    clean = embed(model, dataset, Problems())
    for widths, items in ((captions, clean.captions), (images, clean.images)):
        expected = np.sort(items.log_sigma.double().mean(1).numpy())
        np.testing.assert_allclose(np.sort(widths[:, 0]), expected, atol=1e-5)
    assert np.ptp(images[:, -1]) < 1e-5
    assert np.ptp(images[:, 0]) > 1e-4


def test_bins_against_a_loop():
    generator = np.random.default_rng(0)
    widths, values = generator.normal(size=103), generator.random(103)
    found = binned(widths, values, bins=7)
    order = sorted(range(103), key=lambda i: widths[i])
    sizes = [15] * 5 + [14] * 2
    for number, size in enumerate(sizes):
        own, order = order[:size], order[size:]
        assert found.value[number] == pytest.approx(np.mean([values[i] for i in own]))
        assert found.width[number] == pytest.approx(np.median([widths[i] for i in own]))


def test_what_falls_with_sigma_has_a_correlation_of_minus_one():
    widths = np.linspace(-3, -2, 100)
    assert binned(widths, -widths).correlation == pytest.approx(-1)


@pytest.mark.parametrize(("values", "bins"), [(np.ones(3), 2), (np.ones(4), 5), (np.ones(4), 0)])
def test_bins_that_cannot_be_made_are_refused(values, bins):
    with pytest.raises(ShapeError, match="bin"):
        binned(np.ones(4), values, bins=bins)


def test_points_have_no_width():
    with pytest.raises(DataError, match="sigma"):
        width(Points(torch.zeros(2, 1, 3)))
