"""VSRN + AOQ: VSRN, then also negatives mined from the whole training set, and weights by how hard they are.

    rank    = w(i) [γ₁ + s(i, c⁻) − s(i, c)]₊ + w(c) [γ₁ + s(i⁻, c) − s(i, c)]₊
    offline = Σ [γ₂ + s − s(i, c)]₊   over s(i, ĉ), s(î, c), s(î, ĉ) and s(i′, c′)
    w(i)    = β − (s(i, ĉ) − s(i, c⁻)) / α,   w(c) alike
    loss    = rank + offline + weight · caption

s is the cosine, and all is the mean over the pairs (i, c). c⁻ is the hardest caption of the batch, and ĉ one of the
false captions that are most like image i in the whole training set; i⁻ and î alike. i′ is the image of ĉ, and c′ a
caption of î: pairs without a common anchor.

Chen et al. 2020 ("Adaptive Offline Quintuplet Loss for Image-Text Matching", ECCV); a row of the paper's Table 3.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from pcme.core.checks import require
from pcme.embedding import Embedding
from pcme.errors import ShapeError
from pcme.methods.base import Mining, Terms, registry
from pcme.methods.pairs import Truth, positive_pairs
from pcme.methods.triplets import excess
from pcme.methods.vsrn import VSRN, Reasoning

Scores = Float[Tensor, " b"]


@registry.register("vsrn-aoq")
@dataclass(frozen=True)
class AOQ(VSRN):
    """VSRN, and from `offline_from` of the run on quintuplets with negatives mined from the whole training set.

    The authors' settings: γ₁ = 0.2 (`margin`), γ₂ = 0, α = 0.3, β = 1.5, and one of the 300 most similar captions,
    or of a fifth as many images.
    Differs: they train VSRN, mine, and train a second VSRN from the start; here one run is mined before the
    first epoch that begins after that share of it (or before the last one), and goes on. True pairs never count as
    negatives, which two of their four can be; the terms are means over the batch, as everywhere here.
    """

    offline_from: float = 0.5
    candidates: int = 300
    offline_margin: float = 0.0
    alpha: float = 0.3
    beta: float = 1.5
    offline_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require("offline_from", 0 <= self.offline_from < 1, "a share of the run from 0 to below 1", self.offline_from)
        require("candidates", self.candidates >= 1, "at least 1", self.candidates)
        require("offline_margin", self.offline_margin >= 0, "at least 0", self.offline_margin)
        require("alpha", self.alpha > 0, "above 0", self.alpha)

    def objective(self) -> "Quintuplets":
        """The loss."""
        return Quintuplets(self)


class Quintuplets(Reasoning):
    """The loss of this module's docstring; VSRN's until batches have mined negatives."""

    method: AOQ

    def mining(self, done: float, *, last: bool) -> Mining | None:
        """From the first epoch on that begins after `offline_from`, or in the last one alone."""
        begins = last or done >= self.method.offline_from
        return Mining(self.method.candidates, self.method.positives) if begins else None

    def report(self) -> dict[str, Float[Tensor, ""] | float]:
        """As VSRN's; with mined negatives the hardest of a batch counts alone."""
        return {"hardest": 1.0} if self.offline else super().report()

    def forward(self, images: Embedding, captions: Embedding, matches: Truth, generator: torch.Generator) -> Terms:
        """The terms rank, offline and caption, of a batch in three parts: (i, c), (î, ĉ) and (i′, c′)."""
        if not self.offline:
            return super().forward(images, captions, matches, generator)
        size, rest = divmod(len(images), 3)
        if rest or len(captions) != len(images):
            raise ShapeError(
                f"a batch with offline negatives has three equal parts, got {len(images)} images and {len(captions)} "
                "captions. Take the batches of pcme.training.offline."
            )
        terms = self._margins(images, captions, matches, size)
        if self.captioner is not None:
            terms["caption"] = lambda: self.generation(images[:size], captions[:size], generator)
        return Terms.of(terms, **self.method.weights)

    def _margins(
        self, images: Embedding, captions: Embedding, matches: Truth, size: int
    ) -> dict[str, Callable[[], Float[Tensor, ""]]]:
        """The terms that compare, of parts of this size."""
        method = self.method
        (x, x_mined, x_partner), (y, y_mined, y_partner) = (
            items.points()[:, 0].split(size) for items in (images, captions)
        )
        anchors, mined, partners = (slice(start * size, (start + 1) * size) for start in range(3))
        similarity, positive = x @ y.T, positive_pairs(matches[anchors, anchors], method.positives)
        own, to_caption, to_image = _cosine(x, y), _cosine(x, y_mined), _cosine(x_mined, y)
        # Those of the anchors were mined as false by `positives`; captions that were written afresh may still be true.
        by_matches = method.positives == "matches"
        negatives = [
            (to_caption, matches[anchors, mined].diagonal() & by_matches),
            (to_image, matches[mined, anchors].diagonal() & by_matches),
            (_cosine(x_mined, y_mined), matches[mined, mined].diagonal()),
            (_cosine(x_partner, y_partner), matches[partners, partners].diagonal()),
        ]

        def rank() -> Float[Tensor, ""]:
            directions = (similarity, positive, to_caption), (similarity.T, positive.T, to_image)
            parts = [
                excess(scores, true, margin=method.margin, negatives="hardest")
                * adaptive_weights(scores, true, offline, alpha=method.alpha, beta=method.beta)
                for scores, true, offline in directions
            ]
            return torch.stack(parts).sum(0).mean()

        def offline() -> Float[Tensor, ""]:
            parts = [
                (method.offline_margin + scores - own).clamp_min(0).masked_fill(true, 0) for scores, true in negatives
            ]
            return torch.stack(parts).sum(0).mean()

        return {"rank": rank, "offline": offline}


def adaptive_weights(
    similarity: Float[Tensor, "b c"], positive: Bool[Tensor, "b c"], offline: Scores, *, alpha: float, beta: float
) -> Scores:
    """β − (offline − online) / α of every row, with its hardest negative online; β where it has none.

    As printed and in the authors' code it is part of what is minimised: gradients go through it.

    >>> rows, true = torch.tensor([[0.9, 0.3, 0.2], [0.5, 0.8, 0.1]]), torch.eye(2, 3, dtype=torch.bool)
    >>> adaptive_weights(rows, true, torch.tensor([0.6, 0.5]), alpha=0.3, beta=1.5)
    tensor([0.5000, 1.5000])
    """
    hardest = similarity.masked_fill(positive, -torch.inf).amax(1)
    online = torch.where(positive.all(1), offline, hardest)
    return beta - (offline - online) / alpha


def _cosine(x: Float[Tensor, "b d"], y: Float[Tensor, "b d"]) -> Scores:
    return (x * y).sum(1)
