"""`pcme calibrate`: fit a model's confidence on a held-out split, and assess a fit on half of it by the other half."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pcme.core.checks import require_known
from pcme.core.progress import Progress, silent
from pcme.data.dataset import CaptionDataset
from pcme.data.problems import Problems
from pcme.embedding import Embedding
from pcme.evaluation import embed_split
from pcme.kernels.devices import AUTO, DeviceLike
from pcme.model import Model, load
from pcme.uncertainty.confidence import Confidence, fingerprint
from pcme.uncertainty.curve import METHODS
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
    device: DeviceLike = AUTO,
) -> Calibrated:
    """Calibrate the model in a folder on a split that it was not trained on."""
    require_known("method", method, METHODS)  # before anything slow
    checked_share(false_alarm, "false_alarm")
    model, problems = load(folder, device=device), Problems() if problems is None else problems
    split = embed_split(model, dataset, problems, workers=workers, progress=progress)
    fit_on = partial(fit, model.score(), model=fingerprint(folder), method=method, false_alarm=false_alarm)
    first, second = halves(split)
    report = assess(fit_on(first), model.score(), second, unmatched=unmatched_captions(model, split.dataset))
    return Calibrated(fit_on(whole(split)), report)


def unmatched_captions(model: Model, dataset: CaptionDataset) -> Embedding | None:
    """Embed captions that match nothing in the dataset; None where none can be written."""
    written = dataset.unmatched(UNMATCHED)
    return None if written is None else model.encode_captions(written.captions)
