"""InfoNCE against plain loops and torch's own cross entropy."""

import math

import pytest
import torch
from torch.nn import functional as F

from pcme import methods
from pcme.errors import ConfigError
from tests.helpers import generator
from tests.methods.batches import ALL, EYE, MATCHES, NONE, cosines, points, transposed


def looped(logits, true):
    """Rows without a match do not count; a row's matches share its target."""
    losses = []
    for row, marks in zip(logits, true, strict=True):
        if any(marks):
            log_sum = math.log(sum(map(math.exp, row)))
            chosen = [log_sum - logit for logit, mark in zip(row, marks, strict=True) if mark]
            losses.append(sum(chosen) / len(chosen))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("positives", ["diagonal", "matches"])
def test_the_loss_against_a_loop(positives):
    images, captions = points(seed=1), points(seed=2)
    objective = methods.create("infonce", positives=positives).objective().double()
    logits = [[cosine / 0.07 for cosine in row] for row in cosines(images, captions)]
    matches = MATCHES.clone()
    matches[4] = False
    true = (EYE if positives == "diagonal" else matches).tolist()
    expected = (looped(logits, true) + looped(transposed(logits), transposed(true))) / 2
    total = objective(images, captions, matches, generator()).total
    assert math.isclose(total.item(), expected, rel_tol=1e-6)
    if positives == "diagonal":  # as in CLIP
        logits, labels = torch.tensor(logits), torch.arange(5)
        clips = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
        assert math.isclose(total.item(), clips.item(), rel_tol=1e-6)


def test_the_temperature_is_learned_and_capped_but_can_come_back():
    images = points(seed=1)
    objective = methods.create("infonce", positives="diagonal").objective()
    assert methods.create("infonce", largest_scale=14.3).objective().report() == objective.report()
    assert objective.report() == {"scale": pytest.approx(1 / 0.07)}
    with torch.no_grad():
        objective.log_scale.fill_(9.0)
    assert objective.report() == {"scale": 100.0}
    objective(images, points(seed=2), MATCHES, generator()).total.backward()
    assert objective.log_scale.exp().item() == pytest.approx(100)
    assert objective.log_scale.grad.item() > 0  # wrong pairs: a step lowers it


@pytest.mark.parametrize("matches", [NONE, ALL], ids=["no positives", "no negatives"])
def test_without_positives_or_negatives(matches):
    total = methods.create("infonce").objective()(points(seed=1), points(seed=2), matches, generator()).total
    assert math.isfinite(total.item())
    assert (total.item() == 0) == (matches is NONE)


@pytest.mark.parametrize(
    "wrong", [{"temperature": 0.0}, {"largest_scale": 14.0}, {"largest_scale": 0.0}, {"positives": "all"}]
)
def test_parameters_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError):
        methods.create("infonce", **wrong)
