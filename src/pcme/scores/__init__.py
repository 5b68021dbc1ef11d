"""Scores by name. A new score is one class in one file.

>>> create("w2")
Wasserstein()
>>> "match_prob" in names()
True
"""

from pcme.scores.base import MEMORY_LIMIT, LogProbability, Score, registry
from pcme.scores.plans import Normal

__all__ = ["MEMORY_LIMIT", "LogProbability", "Normal", "Score", "create", "names", "registry"]

create = registry.create
names = registry.names
