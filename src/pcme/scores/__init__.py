"""Scores by name. Every module of this package is imported, so a new score is one file.

>>> create("w2")
Wasserstein()
>>> "match_prob" in names()
True
"""

import importlib
import pkgutil

from pcme.scores.base import MEMORY_LIMIT, LogProbability, Score, registry
from pcme.scores.plans import Normal

__all__ = ["MEMORY_LIMIT", "LogProbability", "Normal", "Score", "create", "names", "registry"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def create(name: str, **params: object) -> Score:
    """The score called `name` (or its alias), with these parameters."""
    return registry.create(name, **params)


def names() -> list[str]:
    """All canonical names, sorted."""
    return registry.names()
