import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from pcme.nn.recurrent import StackedBiGRU
from tests.helpers import generator

NAMES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def reference(gru, stack):
    """An nn.GRU with the weights of one stack."""
    other = nn.GRU(gru.weight_ih.shape[2], gru.hidden, batch_first=True, bidirectional=True)
    suffixes = enumerate(("_l0", "_l0_reverse"), 2 * stack)
    other.load_state_dict({name + suffix: getattr(gru, name)[row] for row, suffix in suffixes for name in NAMES})
    return other.to(gru.weight_ih.dtype)


@settings(max_examples=25)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=6), st.integers(1, 3))
def test_equal_to_packed_grus(lengths, stacks):
    gru = StackedBiGRU(3, 4, stacks=stacks, generator=generator()).double()
    lengths = torch.tensor(lengths)
    padded = int(lengths.max()) + 1
    words = torch.randn(len(lengths), padded, 3, generator=generator(1), dtype=torch.float64)
    states = gru(words, lengths)
    for stack in range(stacks):
        packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        _, (forward, backward) = reference(gru, stack)(packed)
        assert torch.allclose(states[stack], torch.cat((forward, backward), 1), atol=1e-12)


def test_gradients():
    """With respect to the words and every weight, for sentences that end at different steps."""
    gru = StackedBiGRU(2, 2, stacks=2, generator=generator()).double()
    words = torch.randn(3, 4, 2, generator=generator(1), dtype=torch.float64, requires_grad=True)
    lengths = torch.tensor([4, 1, 3])
    names, weights = zip(*gru.named_parameters(), strict=True)

    def states(words, *weights):
        given = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(gru, given, (words, lengths))

    assert torch.autograd.gradcheck(states, (words, *weights))


def test_gradients_are_those_of_packed_grus():
    gru = StackedBiGRU(5, 16, stacks=2, generator=generator())
    lengths = torch.randint(1, 9, (12,), generator=generator(2))
    words = torch.randn(12, 9, 5, generator=generator(1), requires_grad=True)
    gru(words, lengths).square().sum().backward()
    found, words.grad = words.grad, None
    packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
    others = [reference(gru, stack) for stack in range(2)]
    torch.stack([other(packed)[1] for other in others]).square().sum().backward()
    assert torch.allclose(found, words.grad, atol=1e-6)
    for row in range(4):
        suffix = "_l0_reverse" if row % 2 else "_l0"
        for name in NAMES:
            expected = getattr(others[row // 2], name + suffix).grad
            assert torch.allclose(getattr(gru, name).grad[row], expected, atol=1e-5)


def test_the_gradient_can_be_taken_twice():
    """Nothing that is kept for it is spoiled by taking it."""
    gru = StackedBiGRU(3, 4, stacks=1, generator=generator())
    total = gru(torch.ones(2, 3, 3), torch.tensor([3, 2])).sum()
    one, two = (torch.autograd.grad(total, gru.weight_hh, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(one, two)


def test_a_sentence_without_words_has_no_state():
    gru = StackedBiGRU(3, 4, stacks=2, generator=generator())
    found = gru(torch.ones(3, 2, 3), torch.tensor([0, 2, 0]))
    assert not found[:, [0, 2]].any()
    assert found[:, 1].all()
    assert not gru(torch.ones(2, 2, 3), torch.tensor([0, 0])).any()


def test_without_gradients_the_states_are_the_same():
    gru = StackedBiGRU(3, 4, stacks=2, generator=generator())
    words, lengths = torch.randn(4, 5, 3, generator=generator(1)), torch.tensor([2, 5, 1, 5])
    with torch.no_grad():
        quiet = gru(words, lengths)
    assert not quiet.requires_grad
    assert torch.equal(gru(words, lengths), quiet)


def test_the_steps_keep_their_precision_under_autocast():
    gru = StackedBiGRU(3, 4, stacks=1, generator=generator())
    words, lengths = torch.randn(4, 5, 3, generator=generator(1)), torch.tensor([2, 5, 1, 5])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = gru(words, lengths)
    assert narrow.dtype == torch.float32
    assert torch.allclose(narrow, gru(words, lengths), atol=0.05)
    narrow.sum().backward()
    assert torch.isfinite(gru.weight_ih.grad).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_weights_come_from_the_generator_and_are_those_of_nn_gru(seed):
    one, two = (StackedBiGRU(3, 16, stacks=1, generator=generator(seed)) for _ in range(2))
    assert torch.equal(one.weight_hh, two.weight_hh)
    weights = one.weight_hh.detach()
    assert float(weights.abs().max()) <= 0.25
    assert abs(float(weights.std()) - 0.25 / 3**0.5) < 0.01
