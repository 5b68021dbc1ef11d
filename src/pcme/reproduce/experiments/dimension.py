"""Fig. D.3: the embedding's dimension."""

from pcme.reproduce.base import Claim, Column, Experiment, Plot, Row, Table, registry
from pcme.reproduce.parts import MEANS, PCME, PRECISIONS

DIMENSIONS = (32, 64, 128, 256)
ROWS = tuple(
    Row(f"{name}, D = {dim}", method, (f"dim={dim}",), series=name, x=dim)
    for name, method in (("μ only", MEANS), ("PCME", PCME))
    for dim in DIMENSIONS
)
COLUMNS = (*PRECISIONS, Column("mean R-P", "both r_precision"))
CLAIMS = tuple(
    Claim(f"PCME is better than μ only at {d}", f"PCME, {d}", f"μ only, {d}", ("mean R-P",))
    for d in (f"D = {dim}" for dim in DIMENSIONS)
)
PLOT = Plot("rows", "R-Precision (%)", "D", columns=("mean R-P",), log_x=True)


@registry.register("dimension", aliases=("fig-d3",))
class Dimension(Experiment):
    """The dimension D, for μ only and for PCME."""

    where = "Fig. D.3"
    differs = (
        "The weight of the KL term is on a mean over dimensions and stays the same; the paper's is "
        "on a sum. At test time J → ∞ instead of J = 7."
    )
    content = (Table("Dimension of the embedding", ROWS, COLUMNS, PLOT, claims=CLAIMS),)
