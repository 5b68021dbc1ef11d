"""Several bidirectional GRUs over the same words, run as one.

The sentences are sorted by length, so that step t works only on those that still have a word; the
directions and the stacks are one batched product. The result is that of packed `nn.GRU`s.
"""

import math

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

__all__ = ["StackedBiGRU"]


class StackedBiGRU(nn.Module):
    """`stacks` independent one-layer bidirectional GRUs with `hidden` units a direction.

    Both final states are read: the forward one after the last word, the backward one after the
    first. Differs: the authors read the output at the last word, where the backward half has seen
    nothing but `<end>` and is the same for every caption (docs/ERRATA.md).

    >>> gru = StackedBiGRU(3, 4, stacks=2, generator=torch.Generator().manual_seed(0))
    >>> gru(torch.ones(5, 7, 3), torch.tensor([7, 1, 3, 7, 2])).shape
    torch.Size([2, 5, 8])
    """

    def __init__(
        self, inputs: int, hidden: int, *, stacks: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.stacks, self.hidden = stacks, hidden
        rows = 2 * stacks  # forward and backward of the first stack, then of the second, ...
        bound = 1 / math.sqrt(hidden)

        def uniform(*shape: int) -> nn.Parameter:
            values = torch.rand(*shape, generator=generator)
            return nn.Parameter((2 * values - 1) * bound)

        # Gates in the order of nn.GRU: reset, update, new.
        self.weight_ih = uniform(rows, 3 * hidden, inputs)
        self.weight_hh = uniform(rows, 3 * hidden, hidden)
        self.bias_ih = uniform(rows, 3 * hidden)
        self.bias_hh = uniform(rows, 3 * hidden)

    def forward(
        self, words: Float[Tensor, "b l e"], lengths: Int64[Tensor, " b"]
    ) -> Float[Tensor, "stacks b h"]:
        """The sentence vectors [stacks, b, 2·hidden]."""
        ordered = torch.sort(lengths, descending=True, stable=True)
        words = words[ordered.indices]
        inputs = self._inputs(words, ordered.values)
        steps = torch.arange(words.shape[1], device=lengths.device)
        alive = (ordered.values[None] > steps[:, None]).sum(1).tolist()
        final = self._run(inputs, alive)
        # Undo the sorting, then put forward and backward side by side.
        final = torch.empty_like(final).index_copy(1, ordered.indices, final)
        pairs = final.view(self.stacks, 2, len(lengths), self.hidden)
        return pairs.transpose(1, 2).reshape(self.stacks, len(lengths), 2 * self.hidden)

    def _inputs(
        self, words: Float[Tensor, "b l e"], lengths: Int64[Tensor, " b"]
    ) -> Float[Tensor, "l r b gates"]:
        """What the words contribute to the gates at every step; r runs over direction and stack."""
        batch, length, width = words.shape
        both = torch.stack((words, _reversed(words, lengths)))
        both = both.view(1, 2, batch * length, width).expand(self.stacks, -1, -1, -1)
        both = both.reshape(2 * self.stacks, batch * length, width)
        gates = torch.baddbmm(self.bias_ih[:, None], both, self.weight_ih.transpose(1, 2))
        return gates.view(2 * self.stacks, batch, length, -1).permute(2, 0, 1, 3)

    def _run(
        self, inputs: Float[Tensor, "l r b gates"], alive: list[int]
    ) -> Float[Tensor, "r b hidden"]:
        """The state of every sentence after its last word, longest sentence first."""
        rows, batch, size = inputs.shape[1], inputs.shape[2], self.hidden
        weight = self.weight_hh.transpose(1, 2)
        state = inputs.new_zeros(rows, batch, size)
        finished = []
        for gates, count in zip(inputs, alive, strict=True):
            if count < state.shape[1]:
                finished.append(state[:, count:])
                state = state[:, :count]
            if count == 0:
                break
            own = torch.baddbmm(self.bias_hh[:, None], state, weight)
            given = gates[:, :count]
            both = torch.sigmoid(given[..., : 2 * size] + own[..., : 2 * size])
            reset, update = both[..., :size], both[..., size:]
            new = torch.tanh(given[..., 2 * size :] + reset * own[..., 2 * size :])
            state = torch.lerp(new, state, update)
        return torch.cat([state, *finished[::-1]], 1)


def _reversed(
    words: Float[Tensor, "b l e"], lengths: Int64[Tensor, " b"]
) -> Float[Tensor, "b l e"]:
    """Each sentence backwards, its padding still behind it."""
    steps = torch.arange(words.shape[1], device=words.device)
    source = (lengths[:, None] - 1 - steps).clamp_min(0)
    return words.gather(1, source[..., None].expand_as(words))
