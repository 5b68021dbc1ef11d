"""Evaluate: embed a split, score it both ways, measure against the truth, query by query.

`evaluate` does it all for a run; `embed`, `protocol` and `evaluated` are its steps. The result is
an `Evaluation`, which keeps the value of every metric for every query. docs/guide/evaluate.md says
what each figure means.

Paper: §4.1.
"""

from pcme.evaluation.bootstrap import Interval, intervals
from pcme.evaluation.compare import Comparison, Difference, compare, compared
from pcme.evaluation.embed import Embedded, embed
from pcme.evaluation.evaluate import EvaluationReport, evaluate
from pcme.evaluation.open_run import embed_split, open_run
from pcme.evaluation.passes import evaluated, retrieval
from pcme.evaluation.protocols import Protocol, protocol
from pcme.evaluation.results import Direction, Evaluation
from pcme.evaluation.subject import Subject

__all__ = [
    "Comparison",
    "Difference",
    "Direction",
    "Embedded",
    "Evaluation",
    "EvaluationReport",
    "Interval",
    "Protocol",
    "Subject",
    "compare",
    "compared",
    "embed",
    "embed_split",
    "evaluate",
    "evaluated",
    "intervals",
    "open_run",
    "protocol",
    "retrieval",
]
