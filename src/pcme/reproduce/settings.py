"""Settings that a search on real birds found, with which `pcme reproduce` trains the methods there.

`python -m studies.real search cub` tries two learning rates of the heads and two values of one setting of each method,
on validation classes alone. Its record is studies/real/search.json; a test compares.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pcme import methods


@dataclass(frozen=True)
class Setting:
    """The settings of one method, or of one of its forms."""

    searched: str
    """Its row in the search."""
    of: Mapping[str, Any]
    """{"kind": the method, and the values of its fields that make it this form}."""
    params: Mapping[str, Any] = field(default_factory=dict)
    learning_rate: float = 1e-2
    further: tuple[str, ...] = ()
    """Further changes of the recipe."""

    def fits(self, method: Mapping[str, Any]) -> bool:
        """Whether these are the settings of a row's method.

        >>> Setting("", {"kind": "pvse", "negatives": "all"}).fits({"kind": "pvse"})  # hardest by default
        False
        """
        if method["kind"] != self.of["kind"]:
            return False
        config = methods.registry.from_record(method)
        return all(getattr(config, name) == value for name, value in self.of.items() if name != "kind")

    @property
    def changes(self) -> tuple[str, ...]:
        """The changes of the recipe besides the method, as `--set` takes them."""
        return f"phases.0.learning_rate={self.learning_rate}", *self.further


OVERLAP: Mapping[str, Any] = {
    "log_sigma": -2.8, "scale": 20.0, "shift": -38.0, "uniformity_weight": 0.0, "fit_weight": 0.0,
}  # fmt: skip
"""`pcme-overlap` on photographs: without the terms that Aviary wants."""

CUB = (
    Setting("VSE0", {"kind": "vse0"}, {"margin": 0.2}),
    Setting("PVSE K = 2, all", {"kind": "pvse", "negatives": "all"}, {"margin": 0.2}),
    Setting("PVSE K = 2, semi-hard", {"kind": "pvse", "negatives": "semi-hard"}, {"margin": 0.1}),
    Setting("PVSE K = 2, hardest", {"kind": "pvse", "negatives": "hardest"}, {"warm_start": 0.8}),
    Setting("PCME, μ only", {"kind": "pcme-mu"}, {"scale": 10.0, "uniformity_weight": 0.03}),
    Setting("PCME, isotropic", {"kind": "pcme-isotropic"}, {"kl_weight": 0.064}),
    Setting("PCME, J = 7", {"kind": "pcme", "likelihood": "sampled"}, {"kl_weight": 0.064}),
    Setting("PCME, analytic", {"kind": "pcme", "likelihood": "analytic"}, {"kl_weight": 0.064}),
    Setting(
        "**PCME, overlap, broad**", {"kind": "pcme-overlap", "breadth_weight": 1.0}, OVERLAP,
        further=("phases.0.sigma_factor=1.0",),
    ),
    Setting("**PCME, overlap**", {"kind": "pcme-overlap"}, {**OVERLAP, "breadth_weight": 0.0}),
)  # fmt: skip
"""The first that fits is a row's. PVSE with K = 1 and 4 has what was found for K = 2."""


def settings_of(method: Mapping[str, Any], searched: Sequence[Setting]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The parameters, and the further changes of the recipe, that were found for a row's method; none for others."""
    found = next((each for each in searched if each.fits(method)), None)
    return ({}, ()) if found is None else (found.params, found.changes)
