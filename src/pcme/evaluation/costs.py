"""What a score costs: numbers kept of a gallery item, and work done for a pair.

Both follow from the plan by which the score is computed here, not from a table. A step of work is
what a processor does at once: a multiplication, an addition, or both. What a pair takes whatever
the dimension is left out, such as the nodes of the analytic match probability.

Paper: Table 1 (space). Differs: sampling keeps J vectors of an item, O(JN); J² is its work, not its
space.
"""

from dataclasses import dataclass

from torch import Tensor

from pcme.embedding import Embedding, Gaussian
from pcme.scores.base import Score
from pcme.scores.densities import DensityPlan
from pcme.scores.match_prob import AnalyticPlan
from pcme.scores.plans import LiftedPlan, Plan, SampledPlan

__all__ = ["Cost", "cost"]

PRODUCTS = 6
"""Matrix products of the analytic match probability (`quadrature.Factors.moments`)."""
DENSITY_STEPS = 6
"""Steps for each dimension in `fused.kernel_sums`: 24 for every four dimensions."""


@dataclass(frozen=True)
class Cost:
    """The cost of one gallery item and of one pair."""

    numbers: int
    """Kept of an item: the least of what it is and of what the score makes of it."""
    bytes: int
    """The same in the embedding's precision."""
    space: str
    """Of a gallery of N items, in vectors: O(N), O(2N), O(JN). Paper: Table 1."""
    work: int | None
    """Steps for a pair; None for a score of which only its formula is known."""


def cost(score: Score, items: Embedding) -> Cost:
    """What `score` costs on items like these.

    >>> import torch
    >>> from pcme import scores
    >>> items = Gaussian(torch.zeros(1, 512), torch.zeros(1, 512))
    >>> cost(scores.create("w2"), items)
    Cost(numbers=1024, bytes=4096, space='O(2N)', work=1024)
    >>> cost(scores.create("average_l2", samples=7), items)
    Cost(numbers=3584, bytes=14336, space='O(JN)', work=25088)
    """
    one = items[:1]
    plan = score.plan(one, one)
    numbers = _numbers(plan, one)
    vectors = round(numbers / one.dim)
    sampled = isinstance(plan, SampledPlan) and isinstance(one, Gaussian)
    space = "O(JN)" if sampled else "O(N)" if vectors == 1 else f"O({vectors}N)"
    return Cost(numbers, numbers * _tensors(one)[0].element_size(), space, _work(plan, one))


def _numbers(plan: Plan, one: Embedding) -> int:
    """A lifted item is its vector and its offset; samples take the place of what they are of."""
    own = sum(tensor.numel() for tensor in _tensors(one))
    if isinstance(plan, SampledPlan):
        return _points(plan, one) * one.dim
    return min(own, plan.width + 1) if isinstance(plan, LiftedPlan) else own


def _work(plan: Plan, one: Embedding) -> int | None:
    if isinstance(plan, SampledPlan):
        return _points(plan, one) ** 2 * one.dim
    if isinstance(plan, LiftedPlan):
        return plan.width
    if isinstance(plan, AnalyticPlan):
        return PRODUCTS * one.dim
    return DENSITY_STEPS * one.dim if isinstance(plan, DensityPlan) else None


def _points(plan: SampledPlan, one: Embedding) -> int:
    """How many points stand for an item."""
    return plan.samples if isinstance(one, Gaussian) else one.x.shape[1]


def _tensors(one: Embedding) -> tuple[Tensor, ...]:
    return (one.mean, one.log_sigma) if isinstance(one, Gaussian) else (one.x,)
