"""Table D.2: does σ need a number for each dimension?"""

from pcme.reproduce import paper
from pcme.reproduce.base import Claim, Experiment, Row, Table, registry
from pcme.reproduce.parts import MEANS, PCME, PRECISION, PRECISION_BARS, PRECISIONS, SIGMAS

ROWS = (
    Row("μ only", MEANS, paper="PCME μ only"),
    Row("isotropic", {**PCME, "kind": "pcme-isotropic"}, paper="PCME isotropic"),
    Row("diagonal", PCME, paper="PCME"),
)
CLAIMS = (
    Claim("one σ is better than none", "isotropic", "μ only", PRECISION),
    Claim("one σ a dimension is better than one", "diagonal", "isotropic", PRECISION),
)


@registry.register("dof", aliases=("table-d2",))
class DegreesOfFreedom(Experiment):
    """No σ, one σ per item, one σ per dimension."""

    where = "Table D.2"
    differs = "At test time J → ∞ instead of J = 7."
    content = (Table("PCME, J = 7", ROWS, (*PRECISIONS, *SIGMAS), PRECISION_BARS, paper.DEGREES, claims=CLAIMS),)
