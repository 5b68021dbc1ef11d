"""VSRN: reasoning over the regions of an image, triplets with the hardest negative, and a captioner.

    loss = rank + weight · caption

rank is the triplet loss of VSE++ on L2(the last state of a GRU over the regions) and L2(the caption's GRU); caption is
−log p of the caption's words given the regions after the graph (`pcme.nn.reasoning`, `pcme.nn.captioner`).

Li et al. 2019 (VSRN, ICCV), §3; a row of the paper's Table 3.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from pcme.core.checks import require
from pcme.embedding import Embedding
from pcme.errors import ConfigError, ShapeError
from pcme.methods.base import Sizes, Terms, registry
from pcme.methods.pairs import Truth
from pcme.methods.triplets import Negatives, TripletMethod, TripletObjective, best_cosine
from pcme.nn.captioner import Captioner, CaptionerSizes, RegionPoints, WordPoints
from pcme.nn.heads import HeadOptions


@registry.register("vsrn")
@dataclass(frozen=True)
class VSRN(TripletMethod):
    """VSRN: four layers of a graph over regions, a GRU that reads them, triplets and a captioner.

    The authors' settings: 36 regions of 2,048 numbers, D = 2,048, words of 300, margin 0.2 and the hardest negative,
    captioner of 512 with dropout 0.2, 128 pairs, Adam 2e-4 and a tenth from epoch 15 of 30; the last three are a
    recipe's business. The paper's loss is rank + caption; their code sums rank over its batch of 128 and takes the mean
    of caption, which here, where both are means, is a weight of 1/128.
    Differs: a warm start and all true matches, as `vse++`; the caption's GRU is bidirectional, as for all methods here,
    where that of their code reads forwards alone; the captioner's captions are those after augmentation.
    """

    negatives: Negatives = "hardest"
    warm_start: float = 0.5
    layers: int = 4
    caption_weight: float = 1 / 128
    caption_hidden: int = 512
    caption_words: int = 300
    caption_dropout: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("layers", "caption_hidden", "caption_words"):
            require(name, getattr(self, name) >= 1, "at least 1", getattr(self, name))
        require("caption_dropout", 0 <= self.caption_dropout < 1, "from 0 to below 1", self.caption_dropout)

    def heads(self, dim: int) -> HeadOptions:
        """Reasoning for images; for captions, the sentence vector brought to length one."""
        return HeadOptions(
            dim, covariance="none", mean_attention=False, mean_norm=False, reasoning=self.layers,
            captioned=self.caption_weight > 0,
        )  # fmt: skip

    def objective(self) -> "Reasoning":
        """The loss."""
        return Reasoning(self)


class Reasoning(TripletObjective):
    """The loss of this module's docstring; on its own, without a model's vocabulary, it has no captioner."""

    method: VSRN

    def __init__(self, method: VSRN) -> None:
        super().__init__(method)
        self.captioner: Captioner | None = None

    def complete(self, sizes: Sizes, generator: torch.Generator) -> None:
        """Add the captioner."""
        method = self.method
        if not method.caption_weight:
            return
        if sizes.words is None:
            raise ConfigError(
                "caption_weight: needs captions that are words of the model's vocabulary, got vectors or subwords. "
                "Set caption.kind=gru, or method.caption_weight=0."
            )
        widths = CaptionerSizes(sizes.dim, sizes.words, method.caption_hidden, method.caption_words)
        self.captioner = Captioner(widths, dropout=method.caption_dropout, generator=generator)

    def forward(self, images: Embedding, captions: Embedding, matches: Truth, generator: torch.Generator) -> Terms:
        """The term rank; with a captioner the term caption too."""
        terms = {"rank": lambda: self.triplets(best_cosine(images, captions), matches)}
        if self.captioner is not None:
            terms["caption"] = lambda: self.generation(images, captions, generator)
        return Terms.of(terms, **self.method.weights)

    def generation(self, images: Embedding, captions: Embedding, generator: torch.Generator) -> Float[Tensor, ""]:
        """−log p of every caption given the regions of its image, mean of the pairs."""
        if self.captioner is None or not (isinstance(images, RegionPoints) and isinstance(captions, WordPoints)):
            got = f"{type(images).__name__} and {type(captions).__name__}"
            raise ShapeError(
                f"the captioner reads the regions of images and the words of captions, got {got}. "
                "Take the embeddings of a model in training."
            )
        loss: Tensor = self.captioner(images.regions, captions.ids, captions.lengths, generator)
        return loss
