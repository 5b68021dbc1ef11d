"""Evaluate: embed a split, score it in both directions, and measure each query. Paper: §4.1.

`evaluate` does all of it for a run; `embed`, `protocol` and `evaluate_score` are its steps. `evaluate_embeddings` and
`evaluate_matrix` do it for files of others. The result is an `Evaluation` with the per-query values of every metric.
docs/guide/evaluate.md explains each metric.
"""

from pcme.evaluation.bootstrap import Estimate as Estimate
from pcme.evaluation.bootstrap import intervals as intervals
from pcme.evaluation.compare import Comparison as Comparison
from pcme.evaluation.compare import Difference as Difference
from pcme.evaluation.compare import compare as compare
from pcme.evaluation.compare import compare_evaluations as compare_evaluations
from pcme.evaluation.embed import Embedded as Embedded
from pcme.evaluation.embed import embed as embed
from pcme.evaluation.evaluate import EvaluationReport as EvaluationReport
from pcme.evaluation.evaluate import evaluate as evaluate
from pcme.evaluation.given import evaluate_embeddings as evaluate_embeddings
from pcme.evaluation.given import evaluate_matrix as evaluate_matrix
from pcme.evaluation.open_run import embed_split as embed_split
from pcme.evaluation.open_run import open_run as open_run
from pcme.evaluation.passes import evaluate_score as evaluate_score
from pcme.evaluation.passes import retrieval as retrieval
from pcme.evaluation.protocols import Protocol as Protocol
from pcme.evaluation.protocols import protocol as protocol
from pcme.evaluation.results import Direction as Direction
from pcme.evaluation.results import Evaluation as Evaluation
from pcme.evaluation.subject import Subject as Subject
