"""Analyses of runs: computed where the split is embedded, kept in the run's folder, their numbers among its figures."""

from collections.abc import Mapping
from pathlib import Path

from pcme import analysis, plots
from pcme.errors import ConfigError
from pcme.evaluation import Subject
from pcme.reproduce.base import Asked, Measurement

FOLDER = "analyses"
"""The folder of their results and figures, in the folder of a run."""


def stem(run: Path, measurement: Measurement) -> Path:
    """The path of a result and its figure, without ".json", ".svg" and ".png"."""
    return run / FOLDER / measurement.key.replace(" ", "-")


def analyse(asked: Asked, subject: Subject, target: Path) -> Mapping[str, float]:
    """Write a result, with its figure where that shows images, which are at hand here alone; return its numbers."""
    chosen = analysis.create(asked.name, **asked.params)
    if (obstacle := chosen.obstacle(subject)) is not None:
        raise ConfigError(f'analysis "{asked.name}": {obstacle}. Remove the row from the experiment.')
    result = chosen.compute(subject)
    target.parent.mkdir(parents=True, exist_ok=True)
    if chosen.shows_images:
        plots.save(chosen.figure(result, subject), target)
    analysis.write(_record(target), asked.name, result, {"split": subject.dataset.split})
    return {number.name: number.value for number in result.numbers()}


def stored(target: Path) -> analysis.Result:
    """Read the result that was written there."""
    return analysis.read(_record(target)).result


def _record(target: Path) -> Path:
    return target.with_name(f"{target.name}.json")
