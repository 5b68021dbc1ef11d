"""`pcme calibrate`: fit a model's confidence on a held-out split, and assess it by halves.

The classes of the split (or its images, without classes) are divided in two. The report is of a fit
on one half, assessed on the other; the confidence that is kept is fitted on both.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pcme.core.progress import Progress, silent
from pcme.data.dataset import CaptionDataset
from pcme.data.problems import Problems
from pcme.embedding import Embedding
from pcme.evaluation import embed_split
from pcme.model import Model, load
from pcme.uncertainty.confidence import Confidence, fingerprint
from pcme.uncertainty.curve import checked_method
from pcme.uncertainty.evaluation_set import halves, whole
from pcme.uncertainty.fitting import FALSE_ALARM, fit
from pcme.uncertainty.quality import CalibrationReport, assess
from pcme.uncertainty.quantiles import checked_share

UNMATCHED = 1000
"""The number of captions without a match, where they can be written."""


@dataclass(frozen=True)
class Calibrated:
    """A fitted confidence, and the quality of one like it on classes that it has not seen."""

    confidence: Confidence
    report: CalibrationReport


def calibrate(
    folder: str | Path,
    dataset: CaptionDataset,
    *,
    method: str = "isotonic",
    false_alarm: float = FALSE_ALARM,
    problems: Problems | None = None,
    workers: int = 2,
    progress: Progress = silent,
) -> Calibrated:
    """Calibrate the model in a folder on a split that it was not trained on."""
    checked_method(method)  # before anything slow
    checked_share(false_alarm, "false_alarm")
    model, name = load(folder), fingerprint(folder)
    problems = Problems() if problems is None else problems
    found = embed_split(model, dataset, problems, workers=workers, progress=progress)
    score, split = model.score(), (found.dataset, found.captions, found.images)
    fit_on = partial(fit, score, model=name, method=method, false_alarm=false_alarm)
    first, second = halves(*split)
    unmatched = unmatched_captions(model, found.dataset)
    report = assess(fit_on(first), score, second, unmatched=unmatched)
    return Calibrated(fit_on(whole(*split)), report)


def unmatched_captions(model: Model, dataset: CaptionDataset, count: int = UNMATCHED) -> Embedding | None:
    """Embed captions that match nothing in the dataset; None where none can be written."""
    written = dataset.unmatched(count)
    return None if written is None else model.encode_captions(written.captions)
