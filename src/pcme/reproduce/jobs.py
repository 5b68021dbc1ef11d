"""Jobs: a training run and its measurements, in a folder named by everything it depends on.

Finished jobs are reused, whichever experiment needs them; interrupted jobs resume.
`python -m pcme.reproduce FOLDER` does the job in a folder.
"""

import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from filelock import FileLock
from pydantic import TypeAdapter

from pcme.core import files
from pcme.errors import FormatError
from pcme.evaluation import Subject, open_run
from pcme.model import load
from pcme.recipes.schema import Recipe, from_record
from pcme.reproduce.backbones import labels_alone, start_from_shared_backbone
from pcme.reproduce.base import Measurement
from pcme.reproduce.measures import Figures, measure
from pcme.reproduce.stamps import digest
from pcme.training import train

FILE, RESULT, CACHE = "job.json", "figures.json", "cache"


@dataclass(frozen=True)
class Job:
    """A run to be trained and measured, in a folder below `runs`.

    `stamp` is the digest of its data.
    """

    label: str
    recipe: Recipe
    measurements: tuple[Measurement, ...]
    splits: Mapping[str, str]
    runs: Path
    data_root: Path | None
    stamp: str

    @property
    def folder(self) -> Path:
        """The run's folder, named by a digest of the recipe, the data and this version."""
        return self.runs / digest(self.recipe, self.stamp)

    @property
    def model(self) -> Path:
        """The model that is measured: the best one, or the last one if the split that chose the best is measured."""
        chosen = self.recipe.validation
        measured = chosen.share is None and chosen.split in self.splits.values()
        return self.folder / "last" if measured else self.folder

    @property
    def missing(self) -> list[Measurement]:
        """The measurements that are not done yet."""
        known = JobState.read(self.folder).figures
        return [each for each in self.measurements if each.key not in known]

    @property
    def command(self) -> list[str]:
        """The module and its argument that do the job in a process of its own."""
        return ["pcme.reproduce", str(self.folder)]

    @property
    def environment(self) -> dict[str, str]:
        """Features of a backbone that is trained here are cached apart."""
        return {"PCME_CACHE": str(self.runs / CACHE)} if labels_alone(self.recipe) else {}

    def write(self) -> None:
        """Put the job into its folder, for a process of its own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        record = {
            "label": self.label,
            "recipe": self.recipe.record(),
            "asks": [asdict(each) for each in self.measurements],
            "splits": dict(self.splits),
            "data_root": None if self.data_root is None else str(self.data_root.absolute()),
            "stamp": self.stamp,
        }
        files.write_json(self.folder / FILE, record)


@dataclass(frozen=True)
class JobState:
    """The state of a job: how long training took, and the metrics by measurement."""

    seconds: float | None
    """Processor time of the attempt that finished, without earlier ones; None before."""
    resumed: bool
    figures: Mapping[str, Figures]

    @staticmethod
    def read(folder: Path) -> "JobState":
        """Read a job's folder; nothing is done where there is no file."""
        path = folder / RESULT
        if not path.is_file():
            return JobState(None, False, {})
        try:
            return TypeAdapter(JobState).validate_json(path.read_bytes())
        except ValueError as error:
            raise FormatError(f"{path}: damaged, got {error}. Remove it to measure the run again.") from error

    def write(self, folder: Path) -> None:
        """Replace the state in a job's folder atomically."""
        files.write_json(folder / RESULT, asdict(self))


def perform(job: Job) -> None:
    """Train the run unless it is trained, and do the missing measurements.

    A second process waits for the first and finds the job done.
    """
    job.folder.mkdir(parents=True, exist_ok=True)
    with FileLock(job.folder / ".lock"):
        done = JobState.read(job.folder)
        if done.seconds is None:
            done = _train(job)
            done.write(job.folder)
        if job.missing:
            _measure(job, done)


def read_job(folder: Path) -> Job:
    """Read the job in a folder."""
    path = folder / FILE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        root = record["data_root"]
        recipe = from_record(record["recipe"])
        measurements = TypeAdapter(tuple[Measurement, ...]).validate_python(record["asks"])
        data_root = None if root is None else Path(root)
        return Job(record["label"], recipe, measurements, record["splits"], folder.parent, data_root, record["stamp"])
    except (OSError, ValueError, LookupError) as error:
        raise FormatError(f"{path}: not a job, got {error}. Start it with `pcme reproduce`.") from error


def forget_features(runs: Path) -> None:
    """Remove cached features of backbones trained here: finished runs do not need them."""
    shutil.rmtree(runs / CACHE, ignore_errors=True)


def _train(job: Job) -> JobState:
    resumed = (job.folder / "checkpoints").is_dir()
    start = time.process_time()
    start_from_shared_backbone(job.recipe, job.folder, data_root=job.data_root, stamp=job.stamp)
    train(job.recipe, job.folder, data_root=job.data_root, resume=True, workers=1)
    return JobState(round(time.process_time() - start, 1), resumed, {})


def _measure(job: Job, done: JobState) -> None:
    """Write each measurement as soon as it is done."""
    model, figures = load(job.model), dict(done.figures)

    @cache
    def subject(split: str) -> Subject:
        return open_run(model, split=job.splits[split], data_root=job.data_root, workers=1)

    for each in job.missing:
        figures[each.key] = measure(each, subject(each.split), job.folder)
        JobState(done.seconds, done.resumed, figures).write(job.folder)
