"""Fig. D.1: does σ need a number for each dimension? The variances say."""

from collections.abc import Mapping
from dataclasses import replace

from pcme.analysis import Result
from pcme.analysis.variances import VarianceProfiles
from pcme.reproduce.base import Asked, Claim, Column, Experiment, Row, Table, registry
from pcme.reproduce.parts import PCME

SIDES = ("images", "captions")
PARTS = {
    "sphericity": ("sphericity of σ²", 2, False),
    "of the item": ("share of an item's width", 1, True),
    "of the dimension": ("share of the dimensions", 1, True),
    "of an item's shape": ("share of an item's shape", 1, True),
}
"""{title: (number of the analysis, digits, in percent)}."""
COLUMNS = tuple(
    Column(f"{side}, {title}", f"{number}, {side}", "analysis", percent=percent, digits=digits)
    for side in SIDES
    for title, (number, digits, percent) in PARTS.items()
)
DIAGONAL, ISOTROPIC = Row("diagonal", PCME), Row("isotropic", {**PCME, "kind": "pcme-isotropic"})
CLAIMS = tuple(
    Claim(
        f"one σ an item can say less than half of how log σ of {side} varies",
        DIAGONAL.label, DIAGONAL.label, (f"{side}, of the item",), most=50.0,
    )
    for side in SIDES
)  # fmt: skip


@registry.register("fig-d1")
class FigureD1(Experiment):
    """Sorted variances of every dimension, against those that are trained with one σ an item."""

    where = "Fig. D.1"
    differs = (
        "The paper shows the curve; the shares are of the variance of log σ, 100 in all: what is common to an item's "
        "dimensions, to a dimension of all items, and the rest."
    )
    content = (
        Table(
            "How log σ varies", (DIAGONAL, ISOTROPIC), COLUMNS, None, claims=CLAIMS, drawn=Asked("variances"),
        ),
    )  # fmt: skip

    def drawings(self, results: Mapping[str, Result]) -> Mapping[str, Result]:
        """The diagonal run, with the level of the isotropic one."""
        diagonal, isotropic = (results[row.label] for row in (DIAGONAL, ISOTROPIC))
        assert isinstance(diagonal, VarianceProfiles)
        assert isinstance(isotropic, VarianceProfiles)
        pairs = zip(diagonal.profiles, isotropic.profiles, strict=True)
        profiles = tuple(replace(profile, isotropic=level.mean[0]) for profile, level in pairs)
        return {DIAGONAL.label: VarianceProfiles(profiles)}
