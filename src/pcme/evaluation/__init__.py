"""Evaluate: embed a split, score it in both directions, and measure each query.

`evaluate` does all of it for a run; `embed`, `protocol` and `evaluate_score` are its steps. The result is an
`Evaluation` with the per-query values of every metric. docs/guide/evaluate.md explains each metric.

Paper: §4.1.
"""

from pcme.evaluation.bootstrap import Estimate, intervals
from pcme.evaluation.compare import Comparison, Difference, compare, compare_evaluations
from pcme.evaluation.embed import Embedded, embed
from pcme.evaluation.evaluate import EvaluationReport, evaluate
from pcme.evaluation.open_run import embed_split, open_run
from pcme.evaluation.passes import evaluate_score, retrieval
from pcme.evaluation.protocols import Protocol, protocol
from pcme.evaluation.results import Direction, Evaluation
from pcme.evaluation.subject import Subject

__all__ = [
    "Comparison",
    "Difference",
    "Direction",
    "Embedded",
    "Estimate",
    "Evaluation",
    "EvaluationReport",
    "Protocol",
    "Subject",
    "compare",
    "compare_evaluations",
    "embed",
    "embed_split",
    "evaluate",
    "evaluate_score",
    "intervals",
    "open_run",
    "protocol",
    "retrieval",
]
