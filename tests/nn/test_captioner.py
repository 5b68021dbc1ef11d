"""The captioner's loss against a loop over captions, steps and regions."""

import math
from itertools import pairwise

import pytest
import torch

from pcme.nn.captioner import Captioner, CaptionerSizes
from tests.helpers import generator

IDS = torch.tensor([[1, 4, 5, 2], [1, 6, 2, 0], [1, 3, 2, 0]])
LENGTHS = torch.tensor([4, 3, 3])
REGIONS = torch.randn(3, 5, 6, generator=generator(1), dtype=torch.float64)


def made(dropout=0.0):
    return Captioner(CaptionerSizes(6, 8, 4, 3), dropout=dropout, generator=generator()).double()


def by_loop(captioner, regions, words):
    """−Σ log p of the words after the first, one step at a time."""
    seen, last = captioner.reader(captioner.region(regions)[None])
    state, total = last[0, 0], 0.0
    for given, true in pairwise(words):
        energies = []
        for region in seen[0]:
            inner = captioner.from_region(region) + captioner.from_state.weight @ state
            energies.append(float(captioner.attention.weight[0] @ torch.tanh(inner)))
        shares = [math.exp(e) / sum(map(math.exp, energies)) for e in energies]
        context = sum(share * region for share, region in zip(shares, seen[0], strict=True))
        state = captioner.writer(torch.cat([captioner.words.weight[given], context])[None], state[None])[0]
        logits = captioner.out(state)
        total -= float(torch.log_softmax(logits, 0)[true])
    return total


@torch.no_grad()
def test_the_loss_against_a_loop():
    captioner = made()
    captions = [[1, 4, 5, 2], [1, 6, 2], [1, 3, 2]]
    expected = sum(by_loop(captioner, regions, words) for regions, words in zip(REGIONS, captions, strict=True)) / 3
    assert math.isclose(captioner(REGIONS, IDS, LENGTHS, generator()).item(), expected, rel_tol=1e-9)


def test_padding_does_not_matter():
    captioner = made()
    wider = torch.cat((IDS, torch.full((3, 2), 7)), 1)
    found = [captioner(REGIONS, ids, LENGTHS, generator()) for ids in (IDS, wider)]
    assert torch.allclose(*found)


def test_with_nothing_learned_every_word_is_as_likely():
    captioner = made()
    for parameter in captioner.out.parameters():
        torch.nn.init.zeros_(parameter)
    assert math.isclose(captioner(REGIONS, IDS, LENGTHS, generator()).item(), math.log(8) * 7 / 3)


def test_gradients_reach_the_regions_and_every_weight():
    captioner, regions = made(), REGIONS.clone().requires_grad_()
    captioner(regions, IDS, LENGTHS, generator()).backward()
    learned = {name: p.grad for name, p in captioner.named_parameters()}
    assert all(gradient is not None and bool(gradient.abs().sum() > 0) for gradient in learned.values())
    assert bool((regions.grad.abs().sum((1, 2)) > 0).all())


def test_dropout_is_drawn_from_the_generator_and_in_training_alone():
    captioner = made(dropout=0.5)
    first, again, other = (captioner(REGIONS, IDS, LENGTHS, generator(seed)).item() for seed in (0, 0, 1))
    assert first == again != other
    captioner.eval()
    assert (
        captioner(REGIONS, IDS, LENGTHS, generator()).item() == made().eval()(REGIONS, IDS, LENGTHS, generator()).item()
    )


def test_what_is_dropped_is_0_and_the_rest_larger():
    captioner = made(dropout=0.2)
    values = captioner._dropped(torch.ones(20_000, dtype=torch.float64), generator())
    assert set(values.tolist()) == {0.0, 1.25}
    assert values.mean().item() == pytest.approx(1, abs=0.02)
