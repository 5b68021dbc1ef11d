"""Measures against the truth: right for a model that is right by construction, and in range."""

import numpy as np
import pytest
import torch

from pcme.data.aviary.dataset import Aviary
from pcme.data.problems import Problems
from pcme.evaluation import embed
from pcme.uncertainty.known_truth import measure_against_truth
from pcme.uncertainty.perturbation import RATIOS, perturbed_log_sigma
from tests.models import untrained

SPLIT = Aviary(pixels=16, test_species=8, test_images=3, captions_per_image=5).load("test")


def test_every_figure_is_there_and_in_range_and_none_of_sigma_without_one():
    model = untrained()
    values = measure_against_truth(model, embed(model, SPLIT, Problems()))
    assert set(values) == {
        "r_precision i2t", "recall@1 i2t", "r_precision t2i", "recall@1 t2i", "calibration error",
        "expected~matches", "no-match auroc", "sigma~matches", "off-centre", "sigma~unknown",
        "rises@unknown", "sigma~erased", "rises@erased",
    }  # fmt: skip
    for name, value in values.items():
        assert (-1 if "~" in name else 0) <= value <= 1, name
    model = untrained("method.kind=pcme-mu")
    assert not any("sigma" in name for name in measure_against_truth(model, embed(model, SPLIT, Problems())))


def test_off_centre_against_a_loop():
    model = untrained()
    split = embed(model, SPLIT, Problems())
    shares = []
    for caption, matched in zip(split.captions.mean, SPLIT.matches().dense(), strict=True):
        around = split.images.mean[torch.from_numpy(matched)]
        beside = float((caption - around.mean(0)).square().sum())
        shares.append(beside / float((caption - around).square().sum(1).mean()))
    assert measure_against_truth(model, split)["off-centre"] == pytest.approx(np.mean(shares), rel=1e-4)


def test_erasing_nothing_changes_nothing_and_all_makes_images_alike():
    model = untrained()
    captions, images = perturbed_log_sigma(model, SPLIT)
    clean = embed(model, SPLIT, Problems())
    for log_sigma, items in ((captions, clean.captions), (images, clean.images)):
        assert log_sigma.shape == (len(items), len(RATIOS))
        expected = np.sort(items.log_sigma.double().mean(1).numpy())
        np.testing.assert_allclose(np.sort(log_sigma[:, 0]), expected, atol=1e-5)
    assert np.ptp(images[:, -1]) < 1e-5
    assert np.ptp(images[:, 0]) > 1e-4
