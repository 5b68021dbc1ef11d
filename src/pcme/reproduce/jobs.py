"""Jobs: one training run and what is measured of it, in a folder named by all it depends on.

A job that is done is read, not made again, whichever experiment asks; one that was interrupted goes
on where it was. `python -m pcme.reproduce FOLDER` does the job that lies in a folder.
"""

import json
import shutil
import time
from collections.abc import Mapping, Sequence
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
from pcme.reproduce.backbones import begun, labels_alone
from pcme.reproduce.base import Ask
from pcme.reproduce.measures import Figures, measured
from pcme.reproduce.stamps import digest
from pcme.training import train

__all__ = ["Done", "Job", "forget_features", "perform", "read_job"]

FILE, RESULT, CACHE = "job.json", "figures.json", "cache"


@dataclass(frozen=True)
class Job:
    """A run to be trained and measured; `stamp` says on what data."""

    label: str
    recipe: Recipe
    asks: tuple[Ask, ...]
    splits: Mapping[str, str]
    runs: Path
    """The folder that all runs lie in."""
    data_root: Path | None
    stamp: str

    @property
    def folder(self) -> Path:
        """Where the run is: named by a digest of the recipe, the data and this version."""
        return self.runs / digest(self.recipe, self.stamp)

    @property
    def missing(self) -> list[Ask]:
        """What has not been measured yet."""
        known = Done.read(self.folder).figures
        return [ask for ask in self.asks if ask.key not in known]

    @property
    def command(self) -> list[str]:
        """What does the job in a process of its own."""
        return ["pcme.reproduce", str(self.folder)]

    @property
    def environment(self) -> dict[str, str]:
        """Features of a backbone that is trained here are of use to nobody else."""
        return {"PCME_CACHE": str(self.runs / CACHE)} if labels_alone(self.recipe) else {}

    def write(self) -> None:
        """Put the job into its folder, for a process of its own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        record = {
            "label": self.label,
            "recipe": self.recipe.record(),
            "asks": [asdict(ask) for ask in self.asks],
            "splits": dict(self.splits),
            "data_root": None if self.data_root is None else str(self.data_root.absolute()),
            "stamp": self.stamp,
        }
        _write(self.folder / FILE, record)


@dataclass(frozen=True)
class Done:
    """What there is of a job: how long training took, and the figures by what was asked."""

    seconds: float | None
    """Of processor time, of the attempt that came to the end; None before."""
    resumed: bool
    """Whether there were earlier attempts, whose time is not counted."""
    figures: Mapping[str, Figures]

    @staticmethod
    def read(folder: Path) -> "Done":
        """From a job's folder; nothing is done where there is no file."""
        path = folder / RESULT
        if not path.is_file():
            return Done(None, False, {})
        try:
            return TypeAdapter(Done).validate_json(path.read_bytes())
        except ValueError as error:
            raise FormatError(
                f"{path} is damaged - {error} - remove it, to measure the run again"
            ) from error

    def write(self, folder: Path) -> None:
        """Into a job's folder, at once."""
        _write(folder / RESULT, asdict(self))


def perform(job: Job) -> None:
    """Train the run unless it is trained, and measure what has not been measured.

    Whoever comes second to a job waits for the first and finds it done.
    """
    job.folder.mkdir(parents=True, exist_ok=True)
    with FileLock(job.folder / ".lock"):
        done = Done.read(job.folder)
        if done.seconds is None:
            done = _trained(job)
            done.write(job.folder)
        missing = job.missing
        if missing:
            _measure(job, done, missing)


def read_job(folder: Path) -> Job:
    """The job that lies in a folder."""
    path = folder / FILE
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        root = record["data_root"]
        return Job(
            record["label"],
            from_record(record["recipe"]),
            TypeAdapter(tuple[Ask, ...]).validate_python(record["asks"]),
            record["splits"],
            folder.parent,
            None if root is None else Path(root),
            record["stamp"],
        )
    except (OSError, ValueError, LookupError) as error:
        raise FormatError(
            f"{path} is not a job - {error} - start it with `pcme reproduce`"
        ) from error


def forget_features(runs: Path) -> None:
    """Remove cached features of backbones trained here: finished runs do not need them."""
    shutil.rmtree(runs / CACHE, ignore_errors=True)


def _trained(job: Job) -> Done:
    resumed = (job.folder / "checkpoints").is_dir()
    start = time.process_time()
    begun(job.recipe, job.folder, data_root=job.data_root, stamp=job.stamp)
    train(job.recipe, job.folder, data_root=job.data_root, resume=True, workers=1)
    return Done(round(time.process_time() - start, 1), resumed, {})


def _measure(job: Job, done: Done, asks: Sequence[Ask]) -> None:
    """Each figure is written as soon as it is known."""
    model, found = load(job.folder), dict(done.figures)

    @cache
    def subject(split: str) -> Subject:
        return open_run(model, split=job.splits[split], data_root=job.data_root, workers=1)

    for ask in asks:
        found[ask.key] = measured(ask, subject(ask.split))
        Done(done.seconds, done.resumed, found).write(job.folder)


def _write(path: Path, record: object) -> None:
    files.write_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
