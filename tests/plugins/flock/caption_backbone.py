"""A caption backbone in one file: the mean of its word vectors."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from pcme.nn.backbone import Build, CaptionBackbone, CaptionNetwork, Features, caption_backbones


class BagOfWords(CaptionNetwork):
    """Word vectors as sites, and their mean."""

    projected = False

    def __init__(self, vectors: Float[Tensor, "v e"]) -> None:
        super().__init__()
        self.features = self.pooled = vectors.shape[1]
        self.words = nn.Embedding.from_pretrained(vectors.clone(), freeze=False)

    def forward(self, inputs: Int64[Tensor, "b l"], lengths: Int64[Tensor, " b"] | None = None) -> Features:
        if lengths is None:
            lengths = inputs.new_full((len(inputs),), inputs.shape[1])
        words = self.words(inputs)
        mask = torch.arange(inputs.shape[1], device=inputs.device)[None] < lengths[:, None]
        pooled = (words * mask[..., None]).sum(1) / lengths[:, None]
        return Features(words, pooled, pooled, mask)

    def word_vectors(self) -> Sequence[nn.Parameter]:
        return [self.words.weight]


@caption_backbones.register("flock-bag")
@dataclass(frozen=True)
class Bag(CaptionBackbone):
    """The mean of a caption's word vectors."""

    def build(self, context: Build) -> BagOfWords:
        assert context.word_vectors is not None, "captions are words"
        return BagOfWords(context.word_vectors)
