"""The match probability of PCME++: a sigmoid of the expected squared distance."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError
from pcme.scores.base import Score, registry, require_gaussian
from pcme.scores.plans import Lifted, LiftedPlan, Normal, Plan, Rows, Shortlist, Side, lift_l2


@registry.register("csd_prob")
@dataclass(frozen=True)
class ExpectedMatch(Score):
    """log sigmoid(b − a E‖z₁−z₂‖²): the log match probability of PCME++.

    Chun 2024 (PCME++), Eq. (1)–(2). Relation: the order of `csd`; `match_prob` has the mean of the
    sigmoid where this has the sigmoid of the mean.
    """

    scale: float = 5.0
    shift: float = 5.0
    symmetric: ClassVar[bool] = True
    orders_like: ClassVar[str | None] = "csd"
    is_log_probability: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        if not (0 < self.scale < math.inf and math.isfinite(self.shift)):
            raise ConfigError(
                "csd_prob needs a finite scale > 0 and a finite shift, "
                f"got {self.scale} and {self.shift}."
            )

    def pairs(self, queries: Normal, gallery: Normal) -> Float[Tensor, "*n"]:
        """log sigmoid(b − a (‖μ₁−μ₂‖² + Σ(σ₁²+σ₂²)))."""
        return self.of(_closeness(queries, gallery))

    def plan(self, queries: Embedding, gallery: Embedding) -> Plan:
        """One matrix product a block, as for `csd`."""
        return SquashedPlan(self, require_gaussian(self, queries), require_gaussian(self, gallery))

    def of(self, closeness: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
        """The score of pairs whose `csd` is this."""
        return logsigmoid(self.shift + self.scale * closeness)


class SquashedPlan(LiftedPlan):
    """That of `csd`; all of it goes through the sigmoid, which keeps the order."""

    def __init__(self, score: ExpectedMatch, queries: Gaussian, gallery: Gaussian) -> None:
        super().__init__(_closeness, _lift, queries, gallery)
        self.score = score
        self.bytes_per_pair += 16

    def block(self, rows: Rows, columns: slice) -> Tensor:
        """One product, squashed."""
        return self.score.of(super().block(rows, columns))

    def candidates(self, rows: Tensor, ids: Int[Tensor, "q m"]) -> Tensor:
        """The formula, squashed."""
        return self.score.of(super().candidates(rows, ids))

    def shortlist(self, k: int) -> Shortlist:
        """The keys of `csd`; a bound on them bounds the score."""
        keys = super().shortlist(k)
        return replace(keys, upper=lambda rows, found: self.score.of(keys.upper(rows, found)))


def _closeness(queries: Normal, gallery: Normal) -> Tensor:
    spread = queries.variance.sum(-1) + gallery.variance.sum(-1)
    return -(queries.mean - gallery.mean).square().sum(-1) - spread


def _lift(items: Normal, side: Side) -> Lifted:
    return lift_l2(items.mean, items.variance.sum(-1), side)
