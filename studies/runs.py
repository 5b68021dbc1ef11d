"""Training runs of the studies: `pcme train`, a few at a time, started by the runner of `pcme.reproduce`.

Finished runs are reused; interrupted runs resume.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pcme.reproduce.runner import JobEnded, run_all


@dataclass(frozen=True)
class TrainingRun:
    """A run of `pcme train` in a folder of its own, one thread."""

    recipe: str
    folder: Path
    changes: tuple[str, ...] = ()
    seed: int = 0
    data_root: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {}

    @property
    def label(self) -> str:
        return self.folder.name

    @property
    def missing(self) -> bool:
        return not (self.folder / "weights.safetensors").is_file()

    @property
    def command(self) -> list[str]:
        sets = [part for change in self.changes for part in ("--set", change)]
        root = [] if self.data_root is None else ["--data-root", str(self.data_root)]
        options = ["--out", str(self.folder), "--seed", str(self.seed), *root]
        return ["pcme", "train", self.recipe, "--json", "--resume", "--workers", "1", *options, *sets]

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)


AVIARY: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "pcme-overlap": ("aviary", ()),
    "pcme": ("aviary-pcme", ("method.kind=pcme",)),
}
"""{method: (its folder, its changes of the recipe `aviary`)}: the runs that several studies share."""


def aviary_runs(runs: Path, workers: int = 2) -> dict[str, Path]:
    """Train the missing runs of AVIARY below `runs`; return all their folders."""
    by_name = {name: TrainingRun("aviary", runs / folder, changes) for name, (folder, changes) in AVIARY.items()}
    train_all(list(by_name.values()), workers=workers)
    return {name: run.folder for name, run in by_name.items()}


def train_all(
    runs: Sequence[TrainingRun],
    measure: Callable[[TrainingRun, float | None], None] = lambda run, seconds: None,
    save: Callable[[], None] = lambda: None,
    *,
    workers: int = 2,
) -> None:
    """Train the missing runs. Measure each run as soon as it is trained, and save after each run.

    `measure` gets the seconds that the training took, or None if the run was already trained.
    """

    def report(run: JobEnded) -> None:
        save()
        text = run.failure or f"{run.seconds:.0f} s"
        print(f"[{run.done}/{run.total}] {run.label}: {text}", file=sys.stderr, flush=True)

    if run_all(runs, workers=workers, after=measure, ended=report):
        sys.exit("Some runs failed. Fix the cause and run the same command.")
