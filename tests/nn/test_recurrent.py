"""The stacked bidirectional GRU is that of packed nn.GRUs; padding and order do not matter."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from pcme.nn.recurrent import StackedBiGRU


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def reference(gru, stack):
    """An nn.GRU with the weights of one stack."""
    made = nn.GRU(gru.weight_ih.shape[2], gru.hidden, batch_first=True, bidirectional=True)
    made = made.to(gru.weight_ih.dtype)
    with torch.no_grad():
        for direction, suffix in enumerate(("", "_reverse")):
            row = 2 * stack + direction
            getattr(made, f"weight_ih_l0{suffix}").copy_(gru.weight_ih[row])
            getattr(made, f"weight_hh_l0{suffix}").copy_(gru.weight_hh[row])
            getattr(made, f"bias_ih_l0{suffix}").copy_(gru.bias_ih[row])
            getattr(made, f"bias_hh_l0{suffix}").copy_(gru.bias_hh[row])
    return made


@settings(max_examples=25)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=6), st.integers(1, 3))
def test_equal_to_packed_grus(lengths, stacks):
    gru = StackedBiGRU(3, 4, stacks=stacks, generator=generator()).double()
    lengths = torch.tensor(lengths)
    longest = int(lengths.max())
    words = torch.randn(len(lengths), longest, 3, generator=generator(1), dtype=torch.float64)
    found = gru(words, lengths)
    for stack in range(stacks):
        packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        _, states = reference(gru, stack)(packed)
        assert torch.allclose(found[stack], torch.cat((states[0], states[1]), 1), atol=1e-12)


def test_padding_does_not_change_a_sentence():
    gru = StackedBiGRU(3, 4, stacks=2, generator=generator())
    words = torch.randn(2, 5, 3, generator=generator(1))
    lengths = torch.tensor([5, 2])
    longer = torch.cat([words, torch.full((2, 3, 3), 1e4)], 1)
    spoiled = longer.clone()
    spoiled[1, 2:] = -77
    assert torch.allclose(gru(words, lengths), gru(longer, lengths), atol=1e-6)
    assert torch.equal(gru(longer, lengths), gru(spoiled, lengths))


def test_the_order_of_the_batch_does_not_change_a_sentence():
    gru = StackedBiGRU(3, 4, stacks=1, generator=generator()).double()
    words = torch.randn(6, 5, 3, generator=generator(1), dtype=torch.float64)
    lengths = torch.tensor([2, 5, 1, 3, 5, 4])
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    assert torch.allclose(gru(words, lengths)[:, order], gru(words[order], lengths[order]), atol=1e-12)


def test_both_halves_depend_on_the_words():
    """The authors' read-out has a backward half that is the same for every caption."""
    gru = StackedBiGRU(3, 4, stacks=1, generator=generator())
    words = torch.randn(4, 5, 3, generator=generator(1))
    words[:, -1] = words[0, -1]  # the same last word, as <end> is
    found = gru(words, torch.full((4,), 5))[0].detach()
    for half in (found[:, :4], found[:, 4:]):
        assert float((half[1:] - half[:1]).abs().min(0).values.max()) > 1e-3


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
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
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
