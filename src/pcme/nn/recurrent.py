"""Several bidirectional GRUs over the same words, run as one.

The sentences are sorted by length and packed, so that step t works only on those that still have a word; the directions
and the stacks are one batched product per step. The gradient is written out by hand: that of the weights is then one
product over all steps, where automatic differentiation makes one per step. The result is that of packed `nn.GRU`s.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from pcme.nn.attention import single_precision
from pcme.nn.backbone import unset

Gradient = Float[Tensor, "r ..."]
Recurrent = TypeVar("Recurrent", nn.GRU, nn.GRUCell)


def drawn(make: Callable[[], Recurrent], generator: torch.Generator) -> Recurrent:
    """A recurrent network of torch, with uniform weights as torch has them, but drawn from a generator."""
    network = unset(make)
    bound = 1 / math.sqrt(network.hidden_size)
    for parameter in network.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return network


class StackedBiGRU(nn.Module):
    """`stacks` independent one-layer bidirectional GRUs with `hidden` units per direction.

    Both final states are read: the forward one after the last word, the backward one after the first. Differs: the
    authors read the output at the last word, where the backward half has seen `<end>` alone (docs/science/errata.md).

    >>> gru = StackedBiGRU(3, 4, stacks=2, generator=torch.Generator().manual_seed(0))
    >>> gru(torch.ones(5, 7, 3), torch.tensor([7, 1, 3, 7, 2])).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, inputs: int, hidden: int, *, stacks: int, generator: torch.Generator) -> None:
        super().__init__()
        self.stacks, self.hidden = stacks, hidden
        rows = 2 * stacks  # forward and backward of the first stack, then of the second, ...
        bound = 1 / math.sqrt(hidden)

        def uniform(*shape: int) -> nn.Parameter:
            return nn.Parameter((2 * torch.rand(*shape, generator=generator) - 1) * bound)

        # Gates in the order of nn.GRU: reset, update, new.
        self.weight_ih = uniform(rows, 3 * hidden, inputs)
        self.weight_hh = uniform(rows, 3 * hidden, hidden)
        self.bias_ih = uniform(rows, 3 * hidden)
        self.bias_hh = uniform(rows, 3 * hidden)

    def forward(self, words: Float[Tensor, "b l e"], lengths: Int64[Tensor, " b"]) -> Float[Tensor, "stacks b h"]:
        """The sentence vectors [stacks, b, 2·hidden]; with lengths on the CPU nobody waits for the device."""
        ordered = torch.sort(lengths, descending=True, stable=True)
        steps = torch.arange(words.shape[1], device=lengths.device)
        alive = ordered.values[None] > steps[:, None]
        order = ordered.indices.to(words.device, non_blocking=True)
        gates = self._inputs(words[order], ordered.values, alive)
        counts = [count for count in alive.sum(1).tolist() if count]
        with single_precision(words):  # errors would add up over the steps
            gates = gates.to(self.weight_hh.dtype)
            state = gates.new_zeros(2 * self.stacks, len(lengths), self.hidden)
            trains = torch.is_grad_enabled()  # within the function it never is
            final: Tensor = _Recurrence.apply(  # type: ignore[no-untyped-call]
                gates, self.weight_hh, self.bias_hh, state, counts, trains
            )
        # Undo the sorting, then put forward and backward side by side.
        final = torch.empty_like(final).index_copy(1, order, final)
        pairs = final.view(self.stacks, 2, len(lengths), self.hidden)
        return pairs.transpose(1, 2).reshape(self.stacks, len(lengths), 2 * self.hidden)

    def _inputs(
        self, words: Float[Tensor, "b l e"], lengths: Int64[Tensor, " b"], alive: Bool[Tensor, "l b"]
    ) -> Float[Tensor, "r n gates"]:
        """The words' part of the gates; n runs over the steps, then the sentences alive.

        r runs over stack and direction; a backward one reads each sentence from its end.
        """
        step, sentence = alive.nonzero(as_tuple=True)
        back = lengths[sentence] - 1 - step
        step, sentence, back = (rows.to(words.device, non_blocking=True) for rows in (step, sentence, back))
        both = torch.stack((words[sentence, step], words[sentence, back]))
        rows = both.expand(self.stacks, -1, -1, -1).reshape(2 * self.stacks, *both.shape[1:])
        return torch.baddbmm(self.bias_ih[:, None], rows, self.weight_ih.transpose(1, 2))


class _Recurrence(torch.autograd.Function):
    """All steps: from the words' part of the gates [r,n,3h] to the final states [r,b,h].

    r, z, m = the gates reset, update, new;  o = the state's part of "new", before the reset:
    rz = sigmoid(x_rz + U_rz h),  o = U_m h + b_m,  m = tanh(x_m + r o),  h' = m + z (h - m).
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch gives it no type
        gates: Float[Tensor, "r n gates"],
        weight: Float[Tensor, "r gates h"],
        bias: Float[Tensor, "r gates"],
        state: Float[Tensor, "r b h"],
        counts: Sequence[int],
        trains: bool,
    ) -> Float[Tensor, "r b h"]:
        """The final states, in `state`; `gates`, which nobody else needs, becomes r, z and m."""
        size = weight.shape[2]
        recurrent_new, before = gates.new_empty(2, len(gates), gates.shape[1] if trains else 0, size)
        room = gates.new_empty(state.numel() * 3)  # new memory for every step would be slow
        turned = weight.transpose(1, 2)
        for count, here in _steps(counts):
            previous = state[:, :count]  # those that are at their end keep their state
            recurrent = _shaped(room, len(gates), count, 3 * size)
            torch.baddbmm(bias[:, None], previous, turned, out=recurrent)
            if trains:
                before[:, here], recurrent_new[:, here] = previous, recurrent[..., 2 * size :]
            both = gates[:, here, : 2 * size].add_(recurrent[..., : 2 * size]).sigmoid_()
            new = gates[:, here, 2 * size :].addcmul_(both[..., :size], recurrent[..., 2 * size :])
            torch.lerp(new.tanh_(), previous, both[..., size:], out=previous)
        ctx.mark_dirty(state)
        ctx.counts = counts
        ctx.save_for_backward(gates, recurrent_new, before, weight)
        return state

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any,  # noqa: ANN401
        final: Float[Tensor, "r b h"],
    ) -> tuple[Gradient, Gradient, Gradient, None, None, None]:
        """The gradients with respect to gates, weight and bias."""
        gates, recurrent_new, before, weight = ctx.saved_tensors
        rows, size = len(gates), weight.shape[2]
        state = final.clone(memory_format=torch.contiguous_format)
        to_gates, to_recurrent = torch.empty_like(gates), torch.empty_like(gates)
        room = gates.new_empty(2, state.numel())
        for count, here in reversed(list(_steps(ctx.counts))):
            r, z, new = gates[:, here].split(size, 2)
            to_r, to_z, to_new = to_gates[:, here].split(size, 2)
            part, carried = (_shaped(memory, rows, count, size) for memory in room)
            to_state = state[:, :count]
            torch.mul(to_state, z, out=carried)
            torch.sub(to_state, carried, out=part)
            torch.ops.aten.tanh_backward(part, new, grad_input=to_new)
            torch.mul(to_new, recurrent_new[:, here], out=part)
            torch.ops.aten.sigmoid_backward(part, r, grad_input=to_r)
            torch.sub(before[:, here], new, out=part).mul_(to_state)
            torch.ops.aten.sigmoid_backward(part, z, grad_input=to_z)
            to_recurrent[:, here, : 2 * size] = to_gates[:, here, : 2 * size]
            torch.mul(to_new, r, out=to_recurrent[:, here, 2 * size :])
            torch.baddbmm(carried, to_recurrent[:, here], weight, out=to_state)
        return to_gates, to_recurrent.transpose(1, 2) @ before, to_recurrent.sum(1), None, None, None


def _steps(counts: Sequence[int]) -> Iterator[tuple[int, slice]]:
    """(sentences alive, their rows among all) of every step."""
    for count, end in zip(counts, accumulate(counts), strict=True):
        yield count, slice(end - count, end)


def _shaped(room: Float[Tensor, " n"], *shape: int) -> Float[Tensor, "r c k"]:
    """The beginning of some memory, in this shape."""
    return room[: math.prod(shape)].view(shape)
