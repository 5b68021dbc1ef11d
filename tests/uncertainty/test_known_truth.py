"""Measures against the truth: right for a model that is right by construction, and in range."""

import numpy as np
import pytest
import torch

from pcme import recipes
from pcme.data.aviary.dataset import Aviary
from pcme.data.problems import Problems
from pcme.data.text.tokens import Vocab
from pcme.evaluation import embed
from pcme.model import Model
from pcme.uncertainty.known_truth import measured

TINY = recipes.get("aviary-tiny")


@pytest.fixture(scope="module")
def dataset():
    return Aviary(pixels=16, test_species=8, test_images=3, captions_per_image=5).load("test")


def untrained(dataset, **method):
    recipe = TINY.changed([f"method.{k}={v}" for k, v in method.items()])
    vocab = Vocab.build(dataset.captions, 1)
    vectors = torch.randn(len(vocab), 8, generator=torch.Generator().manual_seed(0))
    return Model(recipe, vocab, vectors).eval()


def test_every_figure_is_there_and_in_range(dataset):
    model = untrained(dataset)
    values = measured(model, embed(model, dataset, Problems()))
    assert set(values) == {
        "r_precision i2t", "recall@1 i2t", "r_precision t2i", "recall@1 t2i", "calibration error",
        "expected~matches", "no-match auroc", "sigma~matches", "off-centre", "sigma~unknown",
        "rises@unknown", "sigma~erased", "rises@erased",
    }  # fmt: skip
    for name, value in values.items():
        assert (-1 if "~" in name else 0) <= value <= 1, name


def test_a_model_without_sigma_has_no_figures_of_it(dataset):
    model = untrained(dataset, kind="pcme-mu")
    assert not any("sigma" in name for name in measured(model, embed(model, dataset, Problems())))


def test_off_centre_against_a_loop(dataset):
    model = untrained(dataset)
    found = embed(model, dataset, Problems())
    truth = dataset.matches().dense()
    shares = []
    for caption, matched in zip(found.captions.mean, truth, strict=True):
        around = found.images.mean[torch.from_numpy(matched)]
        beside = float((caption - around.mean(0)).square().sum())
        shares.append(beside / float((caption - around).square().sum(1).mean()))
    assert measured(model, found)["off-centre"] == pytest.approx(np.mean(shares), rel=1e-4)
