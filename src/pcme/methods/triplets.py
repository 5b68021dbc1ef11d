"""Triplets: anchor, positive, negative; the loss is how far a negative comes within the margin.

    excess = max(0, margin + sim(anchor, negative) − sim(anchor, positive))

summed over an anchor's negatives, or that of the worst of them, for images as anchors and for
captions as anchors. What VSE0, VSE++ and PVSE share. Paper: §4.2, §E.2.
"""

from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from pcme.embedding import Embedding

__all__ = ["Negatives", "Positives", "Triplets", "best_cosine", "excess", "roles"]

Negatives = Literal["all", "hardest", "semi-hard"]
Positives = Literal["diagonal", "matches"]


class Triplets(nn.Module):
    """The loss of an anchor, both ways added, mean over the batch; with a warm start.

    `negatives`: "all" of them are summed (or averaged over the batch with `averaged`), the
    "hardest" alone counts, or the "semi-hard" one: the hardest that is still less similar than the
    positive (Schroff et al. 2015); an anchor without any counts nothing.

    In the first part of a run, its share `warm_start`, all negatives count, and from then on the
    one alone: from random weights the hardest negative pulls everything into one point, where the
    loss is twice the margin and has no slope that leads out. It is a switch, as in VSE∞ (Chen et
    al. 2021), for the sum of all would drown the one in any blend of the two. The count of steps is
    a buffer, so that a resumed run goes on where it was.
    """

    steps: Tensor

    def __init__(
        self,
        *,
        margin: float,
        negatives: Negatives,
        positives: Positives,
        warm_start: float,
        averaged: bool = False,
    ) -> None:
        super().__init__()
        self.margin, self.averaged = margin, averaged
        self.negatives, self.positives = negatives, positives
        self.warm_start, self.warm_steps = warm_start, 0
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def expect(self, steps: int) -> None:
        """A run of this many steps begins; without it, there is no warm start."""
        self.warm_steps = round(self.warm_start * steps)

    @property
    def counted(self) -> Negatives:
        """The negatives that count at this step."""
        return "all" if self.steps.item() < self.warm_steps else self.negatives

    def forward(
        self, similarity: Float[Tensor, "b c"], matches: Bool[Tensor, "b c"]
    ) -> Float[Tensor, ""]:
        """The loss; in training, it counts as a step."""
        negatives = self.counted
        if self.training:
            self.steps += 1
        positive, negative = roles(matches, self.positives)
        ways = ((similarity, positive, negative), (similarity.T, positive.T, negative.T))
        each = [excess(*way, margin=self.margin, negatives=negatives).mean() for way in ways]
        share = 1 / len(matches) if self.averaged and self.negatives == "all" else 1.0
        return share * torch.stack(each).sum()

    def report(self) -> dict[str, float]:
        """Whether the one negative counts alone by now, for those who watch a run."""
        return {"hardest": float(self.counted != "all")} if self.warm_steps else {}


def excess(
    similarity: Float[Tensor, "b c"],
    positive: Bool[Tensor, "b c"],
    negative: Bool[Tensor, "b c"],
    *,
    margin: float,
    negatives: Negatives,
) -> Float[Tensor, " b"]:
    """By how much the negatives of each row come within the margin of its positives.

    The mean over the row's positives, so that a row weighs the same however many it has; 0 where
    there is none.

    >>> cosines = torch.tensor([[0.5, 0.4, 0.6], [0.0, 0.0, 0.0]])
    >>> true = torch.tensor([[True, False, False], [False, False, False]])
    >>> excess(cosines, true, ~true, margin=0.2, negatives="all")
    tensor([0.4000, 0.0000])
    >>> excess(cosines, true, ~true, margin=0.2, negatives="semi-hard")
    tensor([0.1000, 0.0000])
    """
    rows, columns = positive.nonzero(as_tuple=True)
    own, others, counts = similarity[rows, columns][:, None], similarity[rows], negative[rows]
    if negatives == "semi-hard":
        counts = counts & (others < own)
    over = (margin + others - own).clamp_min(0).masked_fill(~counts, 0)
    worst = over.sum(1) if negatives == "all" else over.amax(1)
    share = worst / positive.sum(1)[rows]
    return similarity.new_zeros(len(similarity)).index_add(0, rows, share)


def roles(
    matches: Bool[Tensor, "b c"], positives: Positives
) -> tuple[Bool[Tensor, "b c"], Bool[Tensor, "b c"]]:
    """(which pairs are positives, which are negatives).

    `diagonal`: each pair is its own positive, and all else is negative, true or not, as in the
    authors' codes. `matches`: as it is true.
    """
    if positives == "diagonal":
        own = torch.eye(*matches.shape, dtype=torch.bool, device=matches.device)
        return own, ~own
    return matches, ~matches


def best_cosine(images: Embedding, captions: Embedding) -> Float[Tensor, "b c"]:
    """The largest of the K × K cosines of a pair, for points (or means) of length one.

    Song & Soleymani 2019 (PVSE): multiple-instance learning. With K = 1 it is the cosine.
    """
    x, y = images.points(), captions.points()
    (b, k, _), (c, m, _) = x.shape, y.shape
    cosines = x.flatten(0, 1) @ y.flatten(0, 1).T
    return cosines.view(b, k, c, m).amax((1, 3))
