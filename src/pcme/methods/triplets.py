"""Triplets: anchor, positive, negative; the loss is how far a negative comes within the margin.

    excess = max(0, margin + sim(anchor, negative) − sim(anchor, positive))

summed over an anchor's negatives, or that of the worst of them, for images and for captions as anchors. VSE0, VSE++ and
PVSE share it. Paper: §4.2, §E.2.
"""

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pcme.core.checks import require, require_known
from pcme.embedding import Embedding
from pcme.kernels.devices import BLOCK_BYTES, uses_compiled
from pcme.methods.base import Method, Objective, Terms
from pcme.methods.pairs import Positives, Truth, positive_pairs
from pcme.scores import create
from pcme.scores.base import Score

Negatives = Literal["all", "hardest", "semi-hard"]


@dataclass(frozen=True)
class TripletMethod(Method, ABC):
    """A method that ranks by a margin between positives and negatives.

    With `averaged`, a sum over all negatives is divided by the batch.
    """

    averaged: ClassVar[bool] = False
    margin: float = 0.2
    negatives: Negatives = "all"
    positives: Positives = "matches"
    warm_start: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("negatives", self.negatives, get_args(Negatives))
        require_known("positives", self.positives, get_args(Positives))
        require("margin", self.margin > 0, "above 0", self.margin)
        require("warm_start", 0 <= self.warm_start < 1, "a share of the run from 0 to below 1", self.warm_start)

    def objective(self) -> "TripletObjective":
        """The loss."""
        return TripletObjective(self)


class Triplets(nn.Module):
    """The loss of an anchor, both directions added, mean over the batch; with a warm start.

    `negatives`: "all" of them are summed, the "hardest" alone counts, or the "semi-hard" one: the hardest that is still
    less similar than the positive (Schroff et al. 2015); an anchor without any counts nothing.

    In the first `warm_steps` all negatives count, and from then on the one alone: from random weights the hardest
    negative pulls everything into one point, where the loss is twice the margin and has no slope that leads out. It is
    a switch, as in VSE∞ (Chen et al. 2021), for in a blend the sum of all would drown the one. The steps are counted in
    a buffer, so that a run resumes where it was; it stays on the CPU, which reads it at every step.
    """

    steps: Tensor

    def __init__(self, method: TripletMethod) -> None:
        super().__init__()
        self.method, self.warm_steps = method, 0
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "Triplets":
        steps = self.steps
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.steps = steps
        return self

    @property
    def counted(self) -> Negatives:
        """The negatives that count at this step."""
        return "all" if self.steps.item() < self.warm_steps else self.method.negatives

    def forward(self, similarity: Float[Tensor, "b c"], matches: Bool[Tensor, "b c"]) -> Float[Tensor, ""]:
        """The loss; in training, it counts as a step."""
        negatives = self.counted
        if self.training:
            self.steps += 1
        positive = positive_pairs(matches, self.method.positives)
        directions = (similarity, positive), (similarity.T, positive.T)
        parts = [excess(*d, margin=self.method.margin, negatives=negatives).mean() for d in directions]
        share = 1 / len(matches) if self.method.averaged and self.method.negatives == "all" else 1.0
        return share * torch.stack(parts).sum()


class TripletObjective(Objective):
    """The triplet loss of the best cosine of every pair; nothing in it is learned."""

    def __init__(self, method: TripletMethod) -> None:
        super().__init__()
        self.method, self.triplets = method, Triplets(method)

    def forward(self, images: Embedding, captions: Embedding, matches: Truth, generator: torch.Generator) -> Terms:
        """The term rank."""
        return Terms.of({"rank": lambda: self.triplets(best_cosine(images, captions), matches)})

    def score(self) -> Score:
        """−‖x − y‖² = 2 cos − 2 for unit vectors: the order of the cosines."""
        return create("mean")

    def set_total_steps(self, steps: int) -> None:
        """The warm start is a share of the run; before this call there is none."""
        self.triplets.warm_steps = round(self.method.warm_start * steps)

    def report(self) -> dict[str, Float[Tensor, ""] | float]:
        """Whether the warm start is over and one negative counts alone."""
        return {"hardest": float(self.triplets.counted != "all")} if self.triplets.warm_steps else {}


def excess(
    similarity: Float[Tensor, "b c"], positive: Bool[Tensor, "b c"], *, margin: float, negatives: Negatives
) -> Float[Tensor, " b"]:
    """By how much the negatives of each row come within the margin of its positives; all others are negatives.

    The mean over the row's positives, so that a row weighs the same however many it has; 0 where there is none.

    >>> cosines = torch.tensor([[0.5, 0.4, 0.6], [0.0, 0.0, 0.0]])
    >>> true = torch.tensor([[True, False, False], [False, False, False]])
    >>> excess(cosines, true, margin=0.2, negatives="all")
    tensor([0.4000, 0.0000])
    >>> excess(cosines, true, margin=0.2, negatives="semi-hard")
    tensor([0.1000, 0.0000])
    """
    if not uses_compiled(similarity.device):
        return _excess_of_all(similarity, positive, margin=margin, negatives=negatives)
    rows, columns = positive.nonzero(as_tuple=True)
    anchored, others, ignored = similarity[rows, columns][:, None], similarity[rows], positive[rows]
    if negatives == "semi-hard":
        ignored = ignored | (others >= anchored)
    over = (margin + others - anchored).clamp_min(0).masked_fill(ignored, 0)
    worst = over.sum(1) if negatives == "all" else over.amax(1)
    share = worst / positive.sum(1)[rows]
    return similarity.new_zeros(len(similarity)).index_add(0, rows, share)


def _excess_of_all(
    similarity: Float[Tensor, "b c"], positive: Bool[Tensor, "b c"], *, margin: float, negatives: Negatives
) -> Float[Tensor, " b"]:
    """`excess` without a list of the positives, for which the device would have to be waited for.

    Every pair is taken for a positive at first, some rows at a time, which the backward pass computes again.
    """

    def of_rows(some: Float[Tensor, "r c"], true: Bool[Tensor, "r c"]) -> Float[Tensor, " r"]:
        anchored, others, ignored = some[:, :, None], some[:, None], true[:, None]
        if negatives == "semi-hard":
            ignored = ignored | (others >= anchored)
        over = (margin + others - anchored).clamp_min(0).masked_fill(ignored, 0)
        worst = over.sum(2) if negatives == "all" else over.amax(2)
        return (worst * true).sum(1) / true.sum(1).clamp_min(1)

    step = max(1, BLOCK_BYTES // (similarity.shape[1] ** 2 * similarity.element_size()))
    parts = zip(similarity.split(step), positive.split(step), strict=True)
    return torch.cat([checkpoint(of_rows, *part, use_reentrant=False, preserve_rng_state=False) for part in parts])


def best_cosine(images: Embedding, captions: Embedding) -> Float[Tensor, "b c"]:
    """The largest of the K × K cosines of a pair, for points (or means) of length one.

    Song & Soleymani 2019 (PVSE): multiple-instance learning. With K = 1 it is the cosine.
    """
    x, y = images.points(), captions.points()
    (b, k, _), (c, m, _) = x.shape, y.shape
    cosines = x.flatten(0, 1) @ y.flatten(0, 1).T
    return cosines.view(b, k, c, m).amax((1, 3))
