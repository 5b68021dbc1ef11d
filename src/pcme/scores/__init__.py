"""Scores by name. A new score is one class in one file.

>>> create("w2")
Wasserstein()
>>> "match_prob" in names()
True
"""

from pcme.scores.base import Score, registry
from pcme.scores.plans import MEMORY_LIMIT, Cost, Normal
from pcme.scores.spec import Spec

__all__ = ["MEMORY_LIMIT", "Cost", "Normal", "Score", "Spec", "create", "names", "registry"]

create = registry.create
names = registry.names
