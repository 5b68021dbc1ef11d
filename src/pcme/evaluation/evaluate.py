"""Evaluate a run: its model on a split of its data, by one score or several."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pcme.core import files
from pcme.core.progress import Progress, named, silent
from pcme.data.problems import Problems
from pcme.evaluation.bootstrap import intervals
from pcme.evaluation.choice import ALL, chosen
from pcme.evaluation.open_run import open_run
from pcme.evaluation.passes import evaluate_score
from pcme.evaluation.results import DIRECTIONS, Evaluation
from pcme.kernels.devices import AUTO, DeviceLike
from pcme.scores import Cost
from pcme.scores.spec import Spec

SUMMARY = "summary.json"


@dataclass(frozen=True)
class EvaluationReport:
    """The evaluations of one run, or of files, on one split, one per score, and the problems of its data."""

    run: Path
    """The run's folder, or the file that was judged."""
    results: tuple[Evaluation, ...]
    costs: tuple[Cost | None, ...]
    """The cost of each score here; None where scores were given."""
    notes: tuple[str, ...]
    problems: Problems

    @property
    def labels(self) -> list[str]:
        """The name of each score, with the parameters in which it differs from others of its name."""
        return [_label(result, self.results) for result in self.results]

    def save(self, folder: str | Path) -> None:
        """Write one .npz file per score, and all metrics with their intervals as JSON."""
        target = files.ensure_folder(folder, "the results' folder")
        for label, result in zip(self.labels, self.results, strict=True):
            result.save(target / f"{label}.npz")
        text = json.dumps(list(map(_summary, self.results, self.costs)), indent=2)
        files.write_text(target / SUMMARY, text + "\n")


def evaluate(
    run: str | Path,
    *,
    data_root: Path | None = None,
    split: str = "test",
    scores: str | Sequence[str] | None = None,
    workers: int = 2,
    progress: Progress = silent,
    device: DeviceLike = AUTO,
) -> EvaluationReport:
    """Evaluate the model of a run on a split: by its own score, "all", or those named (`pcme.scores.Spec`)."""
    problems = Problems()
    if scores is not None and scores != ALL:
        Spec.parse_all(scores)  # a wrong name is refused before anything is embedded
    subject = open_run(
        run, split=split, data_root=data_root, workers=workers, problems=problems, progress=progress, device=device
    )
    there = subject.model.device
    images, captions = subject.embedded.images.to(there), subject.embedded.captions.to(there)
    choice = chosen(scores, subject.model.score(), images, captions)
    results = [
        evaluate_score(score, images, captions, subject.protocol, progress=named(progress, f"scores: {score.name}"))
        for score in choice.scores
    ]
    costs = tuple(score.cost(captions) for score in choice.scores)
    notes = (*choice.notes, *subject.protocol.notes)
    return EvaluationReport(Path(run), tuple(results), costs, notes, problems)


def _label(result: Evaluation, results: Sequence[Evaluation]) -> str:
    alike = [other.parameters for other in results if other.score == result.score]
    values = result.parameters.items()
    apart = [f"{name}={value}" for name, value in values if any(other[name] != value for other in alike)]
    return "-".join([result.score, *apart])


def _summary(result: Evaluation, spent: Cost | None) -> dict[str, Any]:
    """The metrics of a score with their intervals, and its cost, if that is known."""
    spans = {}
    for way in DIRECTIONS:
        ends = intervals(result.direction(way)).items()
        spans[way] = {name: None if math.isnan(span.low) else [span.low, span.high] for name, span in ends}
    about = {"dataset": result.dataset, "parameters": result.parameters, "notes": result.notes}
    return {**result.record(), "intervals": spans, "cost": spent and asdict(spent), **about}
