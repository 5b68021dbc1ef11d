"""PCME++ against plain loops; pseudo-positives, soft truth and mixed images."""

import math

import numpy as np
import pytest
import torch

from pcme import methods
from pcme.errors import ConfigError
from pcme.methods.pcmepp import expected_distance, with_pseudo_positives
from pcme.methods.regularisers import kl_to_standard_normal
from tests.helpers import generator
from tests.methods.batches import EYE, MATCHES, gaussians, transposed


def distance(images, captions, i, j):
    means = zip(images.mean[i].tolist(), captions.mean[j].tolist(), strict=True)
    spreads = images.log_sigma[i].tolist() + captions.log_sigma[j].tolist()
    return sum((a - b) ** 2 for a, b in means) + sum(math.exp(2 * s) for s in spreads)


def entropy(logit, target):
    p = 1 / (1 + math.exp(-logit))
    return -target * math.log(p) - (1 - target) * math.log(1 - p)


def pseudo(logits, targets):
    """Row by row: the best target goes to all that look as true as the one that has it."""
    for row, target in zip(logits, targets, strict=True):
        best = max(target)
        bar = max(logit for logit, t in zip(row, target, strict=True) if t == best)
        yield [best if x >= bar else t for x, t in zip(row, target, strict=True)]


def total(logits, targets):
    rows = zip(logits, targets, strict=True)
    return sum(entropy(x, t) for row in rows for x, t in zip(*row, strict=True)) / len(logits)


SOFT = torch.rand(5, 5, generator=generator(7))


@pytest.mark.parametrize("positives", ["diagonal", "matches"])
@pytest.mark.parametrize("soft", [False, True], ids=["plain", "mixed"])
def test_the_loss_against_a_loop(positives, soft):
    images, captions = gaussians(seed=1), gaussians(seed=2)
    method = methods.create("pcme++", positives=positives)
    terms = method.objective().double()(images, captions, SOFT if soft else MATCHES, generator())
    truth = SOFT if soft else EYE if positives == "diagonal" else MATCHES
    targets = [[t + 1e-4 * (1 - 2 * t) for t in row] for row in truth.tolist()]
    logits = [[5 - 5 * distance(images, captions, i, j) for j in range(5)] for i in range(5)]
    assert math.isclose(terms.values["match"].item(), total(logits, targets), rel_tol=1e-5)
    directions = [(logits, targets), (transposed(logits), transposed(targets))]
    expected = sum(total(x, pseudo(x, t)) for x, t in directions) / 2
    assert math.isclose(terms.values["pseudo"].item(), expected, rel_tol=1e-5)
    kl = sum(kl_to_standard_normal(side).item() for side in (images, captions))
    assert math.isclose(terms.values["kl"].item(), kl)
    parts = [terms.values[name].item() for name in ("match", "pseudo", "kl")]
    assert math.isclose(terms.total.item(), parts[0] + 0.1 * parts[1] + 0.0064 * parts[2], rel_tol=1e-6)


def test_the_distance_is_what_samples_have_on_average():
    images, captions = gaussians(seed=1), gaussians(seed=2)
    x, y = (g.sample(40_000, generator(s)).x for g, s in ((images, 3), (captions, 4)))
    drawn = (x[:, None] - y[None]).square().sum(-1).mean(-1)
    torch.testing.assert_close(expected_distance(images, captions), drawn, rtol=0.02, atol=0)


def test_pseudo_positives_take_the_target_of_the_pair_they_look_like():
    target = torch.tensor([[0.0, 0.7, 0.3, 0.0], [0.0, 0.0, 0.0, 0.0]])
    logits = torch.tensor([[2.0, 1.0, 0.5, 1.0], [3.0, 2.0, 1.0, 0.0]])
    expected = torch.tensor([[0.7, 0.7, 0.3, 0.7], [0.0, 0.0, 0.0, 0.0]])
    assert torch.equal(with_pseudo_positives(target, logits), expected)


def test_mixing_is_a_function_of_its_generator_and_leaves_the_batch_alone():
    pixels = torch.randint(0, 256, (5, 3, 8, 8), generator=generator(), dtype=torch.uint8)
    before = pixels.clone()
    method = methods.create("pcme++", mixing=0.9)
    first, again, other = (method.mixed(pixels, MATCHES, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    assert torch.equal(pixels, before)
    assert first[1].is_floating_point()


def test_without_mixing_the_batch_is_what_it_was():
    pixels = torch.zeros(5, 3, 8, 8, dtype=torch.uint8)
    for method in (methods.create("pcme++", mixing=0.0), methods.create("pcme")):
        images, matches = method.mixed(pixels, MATCHES, np.random.default_rng(0))
        assert images is pixels
        assert matches is MATCHES


def test_a_quarter_of_the_images_is_mixed():
    pixels = torch.arange(200, dtype=torch.uint8)[:, None, None, None].expand(200, 3, 6, 6)
    images, truth = methods.create("pcme++").mixed(pixels, torch.eye(200, dtype=torch.bool), np.random.default_rng(0))
    changed = (images != pixels).flatten(1).any(1)
    assert 25 < int(changed.sum()) < 75
    assert torch.equal((truth != torch.eye(200)).any(1), changed)
    torch.testing.assert_close(truth.sum(1), torch.ones(200))


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": 0.0}, {"pseudo_weight": -1.0}, {"kl_weight": -1.0}, {"smoothing": 0.5}, {"mixing": 1.5},
        {"mixing_alpha": 0.0}, {"covariance": "none"}, {"positives": "matches-weighted"},
    ],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        methods.create("pcme++", **wrong)
