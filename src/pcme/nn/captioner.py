"""Captioner: how likely a caption is, given the regions of its image; the generation loss of VSRN.

    loss = −Σ_t log p(word t | words before t, regions),   mean over the captions

A GRU reads the regions. Another writes the caption, always told the true words so far (teacher forcing), and attends at
every step to what the first has seen.

Li et al. 2019 (VSRN, ICCV), §3.4, after Venugopalan et al. 2015 (S2VT).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from pcme.embedding import Points
from pcme.nn.backbone import unset
from pcme.nn.heads import linear
from pcme.nn.recurrent import drawn


@dataclass(frozen=True, eq=False)
class RegionPoints(Points):
    """One point per image, and the regions that it was made of, which a captioner reads."""

    regions: Float[Tensor, "n r d"]


@dataclass(frozen=True, eq=False)
class WordPoints(Points):
    """One point per caption, and its ids, of which so many are there; the lengths lie on the CPU."""

    ids: Int64[Tensor, "n l"]
    lengths: Int64[Tensor, " n"]


@dataclass(frozen=True)
class CaptionerSizes:
    """The widths of a captioner: of a region, the number of ids, of its states and of its word vectors."""

    region: int
    words: int
    hidden: int
    word: int


class Captioner(nn.Module):
    """The loss of this module's docstring, with an encoder and a decoder of GRUs.

    Differs: the authors' code counts one padding after `<end>` as a word, and cuts captions at 60; their dropout is
    0.2 too, drawn here from the generator of the step.

    >>> g = torch.Generator().manual_seed(0)
    >>> captioner = Captioner(CaptionerSizes(8, 9, 4, 3), dropout=0.2, generator=g).eval()
    >>> ids, lengths = torch.tensor([[1, 4, 2, 0], [1, 5, 6, 2]]), torch.tensor([3, 4])
    >>> captioner(torch.ones(2, 5, 8), ids, lengths, g).shape
    torch.Size([])
    """

    def __init__(self, sizes: CaptionerSizes, *, dropout: float, generator: torch.Generator) -> None:
        super().__init__()
        hidden, self.dropout = sizes.hidden, dropout
        self.region = linear(sizes.region, hidden, generator)
        self.reader = drawn(lambda: nn.GRU(hidden, hidden, batch_first=True), generator)
        self.words = unset(lambda: nn.Embedding(sizes.words, sizes.word))
        nn.init.normal_(self.words.weight, generator=generator)
        self.from_region = linear(hidden, hidden, generator)
        self.from_state, self.attention = (_matrix(hidden, outputs, generator) for outputs in (hidden, 1))
        self.writer = drawn(lambda: nn.GRUCell(sizes.word + hidden, hidden), generator)
        self.out = linear(hidden, sizes.words, generator)

    def forward(
        self,
        regions: Float[Tensor, "b r d"],
        ids: Int64[Tensor, "b l"],
        lengths: Int64[Tensor, " b"],
        generator: torch.Generator,
    ) -> Float[Tensor, ""]:
        """The mean over the captions of −Σ log p of their words, from the one after `<start>` to `<end>`."""
        states = self._states(regions, ids[:, :-1], generator)
        # Looked up on the CPU, where the lengths are: nobody waits for the device.
        there = torch.arange(ids.shape[1] - 1)[None] < (lengths - 1)[:, None]
        rows, steps = (index.to(ids.device, non_blocking=True) for index in there.nonzero(as_tuple=True))
        logits = self.out(states[rows, steps])
        return F.cross_entropy(logits, ids[rows, steps + 1], reduction="sum") / len(ids)

    def _states(
        self, regions: Float[Tensor, "b r d"], given: Int64[Tensor, "b t"], generator: torch.Generator
    ) -> Float[Tensor, "b t h"]:
        """The decoder's state after each of the given words."""
        seen, last = self.reader(self._dropped(self.region(regions), generator))
        keys, state = self.from_region(seen), last[0]
        words = self.words(given)
        # One draw for all steps; those of the context follow those of the word.
        kept = self._dropped(words.new_ones(*words.shape[:2], words.shape[2] + state.shape[1]), generator)
        states = []
        for step in range(given.shape[1]):
            energies = self.attention(torch.tanh(keys + self.from_state(state)[:, None])).squeeze(-1)
            context = torch.einsum("br,brh->bh", torch.softmax(energies, 1), seen)
            state = self.writer(torch.cat((words[:, step], context), 1) * kept[:, step], state)
            states.append(state)
        return torch.stack(states, 1)

    def _dropped(self, values: Float[Tensor, "*n"], generator: torch.Generator) -> Float[Tensor, "*n"]:
        """The values, in training some of them 0 and the others larger by as much."""
        if not (self.training and self.dropout):
            return values
        draws = torch.rand(values.shape, generator=generator, device=generator.device)
        return values * ((draws >= self.dropout).to(values) / (1 - self.dropout))


def _matrix(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    layer = unset(lambda: nn.Linear(inputs, outputs, bias=False))
    nn.init.xavier_uniform_(layer.weight, generator=generator)
    return layer
