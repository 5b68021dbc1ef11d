"""Fig. D.2 and E.1: how many samples, in training and at test time; and none at all."""

from dataclasses import dataclass
from typing import ClassVar

from pcme.reproduce.base import PCME, Claim, Column, Experiment, Plot, Row, Scoring, Table, registry
from pcme.reproduce.setups import World

__all__ = ["Samples"]

TRAINED, TESTED = (1, 3, 7, 15), (1, 2, 3, 5, 7, 15)
BEYOND = 30.0
"""Where J → ∞ is drawn."""
COLUMNS = (
    Column("i2t R-P", "i2t r_precision"),
    Column("t2i R-P", "t2i r_precision"),
    Column("t2i R@1", "t2i recall@1"),
)
PRECISION = ("i2t R-P", "t2i R-P")


def _trained(samples: int) -> Row:
    method = PCME if samples == 7 else {**PCME, "samples": samples}
    return Row(f"J = {samples}", method, x=samples)


def _tested(samples: int) -> Row:
    scoring = Scoring(params={"method": "sampled", "samples": samples})
    return Row(f"J = {samples}", PCME, scoring=scoring, x=samples)


@registry.register("samples")
@dataclass(frozen=True)
class Samples(Experiment):
    """The number of samples J, in training and at test time, and its limit J → ∞."""

    where: ClassVar[str] = "Fig. D.2 and Fig. E.1"
    differs: ClassVar[str] = (
        "The paper cross-validates on the training classes; here it is the unseen ones. J → ∞ is "
        "the analytic match probability, which the paper does not have."
    )

    def tables(self, world: World) -> tuple[Table, ...]:
        """J in training, judged without sampling; J at test time, of the model of J = 7."""
        plot = Plot(
            "rows", "R-Precision (%)", "J", columns=PRECISION, log_x=True, names={BEYOND: "∞"}
        )
        limit = "J → ∞"
        trained = (*map(_trained, TRAINED), Row(limit, {"kind": "pcme"}, x=BEYOND))
        tested = (*map(_tested, TESTED), Row(limit, PCME, x=BEYOND))
        return (
            Table(
                "J in training",
                trained,
                COLUMNS,
                plot,
                claims=(Claim("more samples in training are better", "J = 7", "J = 1", PRECISION),),
            ),
            Table(
                "J at test time",
                tested,
                COLUMNS,
                plot,
                claims=(Claim("more samples at test are better", "J = 7", "J = 1", PRECISION),),
            ),
        )
