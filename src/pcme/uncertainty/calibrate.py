"""`pcme calibrate`: fit a model's confidence on a held-out split, and judge it by halves.

The classes of the split (its images, where there are no classes) are divided in two. What is
reported was fitted on one half and judged on the other, of which it has seen nothing; what is kept
is fitted on both.
"""

from dataclasses import dataclass
from pathlib import Path

from pcme import uncertainty as confidences
from pcme.core.progress import Progress, silent
from pcme.data.dataset import CaptionDataset
from pcme.data.problems import Problems
from pcme.embedding import Embedding
from pcme.evaluation import embed_split
from pcme.model import Model, load
from pcme.uncertainty import FALSE_ALARM, Confidence, Report, fingerprint, halves, judged, whole
from pcme.uncertainty.curve import checked_method
from pcme.uncertainty.quantiles import checked_share

__all__ = ["UNMATCHED", "Calibrated", "calibrate", "unmatched_captions"]

UNMATCHED = 1000
"""How many captions that fit nothing, where they can be written."""


@dataclass(frozen=True)
class Calibrated:
    """The confidence that was fitted, and what one like it is worth where it has not been."""

    confidence: Confidence
    report: Report


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
    """The confidence of the model in a folder, from a split that it was not trained on."""
    checked_method(method)  # before anything slow
    checked_share(false_alarm, "false_alarm")
    model, name = load(folder), fingerprint(folder)
    found = embed_split(
        model,
        dataset,
        Problems() if problems is None else problems,
        workers=workers,
        progress=progress,
    )
    embedded = found.dataset, found.captions, found.images

    def fitted(part: confidences.Part) -> Confidence:
        return confidences.fit(
            model.score(), part, model=name, method=method, false_alarm=false_alarm
        )

    first, second = halves(*embedded)
    trial = fitted(first)
    unmatched = unmatched_captions(model, found.dataset)
    report = judged(trial, model.score(), second, unmatched=unmatched)
    return Calibrated(fitted(whole(*embedded)), report)


def unmatched_captions(
    model: Model, dataset: CaptionDataset, count: int = UNMATCHED
) -> Embedding | None:
    """Embed captions that match nothing in the dataset; None where none can be written."""
    written = dataset.unmatched(count)
    return None if written is None else model.encode_captions(written.captions)
