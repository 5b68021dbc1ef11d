"""GRU: word vectors, and a bidirectional GRU each for mean and log σ, or one for both.

The sites for attention are the word vectors themselves; the sentence vectors are the bases of the two heads, which
share nothing but the words. Paper: §3.1.1, §3.2.1; §C.3 for one GRU and two projections.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from pcme.core.checks import require, require_known
from pcme.data.text.tokens import Tokens
from pcme.nn.backbone import Build, CaptionBackbone, CaptionNetwork, Features, caption_backbones, full_lengths, present
from pcme.nn.recurrent import StackedBiGRU

ReadOut = Literal["final", "last-word"]


class WordGRU(CaptionNetwork):
    """From ids and lengths to features; with a σ there is a second GRU. Weights are drawn as in nn.GRU.

    `hidden` numbers make a sentence vector, half of them per direction; None: as many as the embedding has. Any other
    number is projected to the embedding by the heads, which have a linear map each. `shared`: both read the same GRU.

    `readout`: sentence vectors are read at the end ("final"), each direction after its last step, or both at the last
    word ("last-word", as in the authors' code): the backward half has seen that alone (docs/science/errata.md).

    >>> words = WordGRU(Build(torch.Generator().manual_seed(0), dim=8, word_vectors=torch.randn(9, 5)))
    >>> features = words(torch.tensor([[1, 4, 2], [1, 2, 0]]), torch.tensor([3, 2]))
    >>> features.local.shape, features.pooled.shape, features.mask.tolist()[1]
    (torch.Size([2, 3, 5]), torch.Size([2, 8]), [True, True, False])
    """

    def __init__(
        self, context: Build, readout: ReadOut = "final", hidden: int | None = None, *, shared: bool = False
    ) -> None:
        super().__init__()
        vectors, width = context.word_vectors, hidden or context.dim
        assert vectors is not None, "a model always has them"
        require("dim", width % 2 == 0, "even, one half per direction, or caption.hidden set", width)
        self.features, self.pooled, self.readout = vectors.shape[1], width, readout
        self.projected = width == context.dim
        own = "with caption.hidden set to another number than dim, or mean and log σ would be the same vector"
        require("caption.shared", not (shared and self.projected), own, shared)
        self.vocabulary = len(vectors)
        self.words = nn.Embedding.from_pretrained(vectors.clone(), freeze=False)
        stacks = 2 if context.with_sigma and not shared else 1
        self.gru = StackedBiGRU(vectors.shape[1], width // 2, stacks=stacks, generator=context.generator)

    def forward(self, inputs: Int64[Tensor, "b l"], lengths: Int64[Tensor, " b"] | None = None) -> Features:
        """The word vectors as sites, and the sentence vectors."""
        lengths = full_lengths(inputs) if lengths is None else lengths
        words = self.words(inputs)
        sentences = self._sentences(words, lengths)
        return Features(words, sentences[0], sentences[-1], present(inputs, lengths), Tokens(inputs, lengths))

    def _sentences(self, words: Float[Tensor, "b l e"], lengths: Int64[Tensor, " b"]) -> Float[Tensor, "stacks b h"]:
        both: Tensor = self.gru(words, lengths)
        if self.readout == "final":
            return both
        rows = torch.arange(len(words), device=words.device)
        last = words[rows, (lengths - 1).to(words.device)][:, None]
        backward: Tensor = self.gru(last, torch.ones_like(lengths))
        half = both.shape[-1] // 2
        return torch.cat((both[..., :half], backward[..., half:]), -1)

    def word_vectors(self) -> Sequence[nn.Parameter]:
        """The one table of them."""
        return [self.words.weight]


@caption_backbones.register("gru")
@dataclass(frozen=True)
class GRU(CaptionBackbone):
    """Word vectors and bidirectional GRUs, the paper's caption backbone.

    `hidden` is the size of a sentence vector where it is not the embedding's: 1,024 for the D = 2 of §C.3. With
    `shared`, also as there, mean and log σ are two projections of one GRU; otherwise each has its own.
    """

    readout: ReadOut = "final"
    hidden: int | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        require_known("readout", self.readout, get_args(ReadOut))
        valid = self.hidden is None or (self.hidden >= 2 and self.hidden % 2 == 0)
        require("hidden", valid, "even and at least 2, one half per direction", self.hidden)

    def build(self, context: Build) -> WordGRU:
        """The network."""
        return WordGRU(context, self.readout, self.hidden, shared=self.shared)
