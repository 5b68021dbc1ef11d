"""The caption backbone: word vectors, and a bidirectional GRU for each of mean and log σ.

The sites for attention are the word vectors themselves; the sentence vectors are the bases of the
two heads, which share nothing but the words. Paper: §3.1.1, §3.2.1.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from pcme.errors import ConfigError
from pcme.nn.heads import Features
from pcme.nn.recurrent import StackedBiGRU

__all__ = ["WordGRU"]


class WordGRU(nn.Module):
    """From ids and lengths to features; `with_sigma` adds the second GRU.

    >>> words = WordGRU(torch.randn(9, 5), dim=8, generator=torch.Generator().manual_seed(0))
    >>> features = words(torch.tensor([[1, 4, 2], [1, 2, 0]]), torch.tensor([3, 2]))
    >>> features.local.shape, features.pooled.shape, features.mask.tolist()[1]
    (torch.Size([2, 3, 5]), torch.Size([2, 8]), [True, True, False])
    """

    def __init__(
        self,
        vectors: Float[Tensor, "v e"],
        *,
        dim: int,
        generator: torch.Generator,
        with_sigma: bool = True,
    ) -> None:
        super().__init__()
        if dim % 2:
            raise ConfigError(f"dim must be even, one half for each direction - got {dim}")
        self.words = nn.Embedding.from_pretrained(vectors.clone(), freeze=False)
        stacks = 2 if with_sigma else 1
        self.gru = StackedBiGRU(vectors.shape[1], dim // 2, stacks=stacks, generator=generator)

    @property
    def word_dim(self) -> int:
        """The size of a word vector."""
        return int(self.words.embedding_dim)

    def forward(self, ids: Int64[Tensor, "b l"], lengths: Int64[Tensor, " b"]) -> Features:
        """The word vectors as sites, and the sentence vectors."""
        words = self.words(ids)
        sentences = self.gru(words, lengths)
        steps = torch.arange(ids.shape[1], device=ids.device)
        return Features(words, sentences[0], sentences[-1], steps[None] < lengths[:, None])
