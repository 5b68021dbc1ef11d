"""Table D.3: attention in the heads of μ and σ, and a squashed σ."""

from pcme.reproduce import paper
from pcme.reproduce.base import Claim, Experiment, Plot, Row, Table, registry
from pcme.reproduce.parts import PCME, PRECISION, PRECISIONS

ATTENTION = (
    Row("neither", {**PCME, "mean_attention": False, "sigma_attention": False}, paper="neither"),
    Row("σ alone", {**PCME, "mean_attention": False}, paper="σ alone"),
    Row("μ alone", {**PCME, "sigma_attention": False}, paper="μ alone"),
    Row("both", PCME, paper="both"),
)
SQUASHED = (Row("with", {**PCME, "sigma_squashed": True}, paper="with"), Row("without", PCME, paper="without"))
ATTENTION_CLAIMS = (
    Claim("attention for both is better than for μ alone", "both", "μ alone", PRECISION),
    Claim("attention for both is better than for neither", "both", "neither", PRECISION),
)
SQUASHED_CLAIMS = (Claim("an unsquashed σ is better", "without", "with", PRECISION),)
BARS = Plot("bars", "R-Precision (%)")


@registry.register("architecture", aliases=("table-d3",))
class Architecture(Experiment):
    """The heads: attention for μ, for σ, for both; sigmoid and layer norm in σ's."""

    where = "Table D.3"
    differs = "At test time J → ∞ instead of J = 7."
    content = (
        Table(
            "Which heads have local attention",
            ATTENTION, PRECISIONS, BARS, paper.ARCHITECTURE, claims=ATTENTION_CLAIMS,
        ),
        Table("Sigmoid and LN in the σ head", SQUASHED, PRECISIONS, BARS, paper.SQUASHING, claims=SQUASHED_CLAIMS),
    )  # fmt: skip
