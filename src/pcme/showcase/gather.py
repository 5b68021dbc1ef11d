"""Gather: what the page says of a run, as plain values."""

import json
import platform
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pcme import analysis, plots, recipes
from pcme.analysis import Number, Subject
from pcme.core.progress import Progress, named, silent
from pcme.core.versions import versions
from pcme.data.problems import Problems
from pcme.evaluation import Evaluation, evaluate_score
from pcme.index.lance import engine
from pcme.recipes.schema import Recipe
from pcme.reproduce import paper
from pcme.showcase.searches import ShownSearch, by_captions, by_images
from pcme.uncertainty import Confidence

FIRST = ("truth", "calibration", "bins", "erasing")
"""The analyses that tell most, before all others."""


@dataclass(frozen=True)
class ShownAnalysis:
    """An analysis: its question, how to read its picture, the picture and its numbers."""

    name: str
    question: str
    reading: str
    svg: str
    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class PaperComparison:
    """The paper's values for this data as (metric, theirs, ours) in per cent, and why they are not comparable."""

    source: str
    values: tuple[tuple[str, float, float], ...]
    caution: str


@dataclass(frozen=True)
class RunReport:
    """Everything on the page.

    `readings` are those that the split names beside its own matches; `has_sigma` says that queries stand in its order.
    """

    run: str
    recipe: Recipe
    evaluation: Evaluation
    readings: tuple[str, ...]
    probability: bool
    """Whether scores are match probabilities."""
    calibrated: bool
    """Whether the probabilities of searches are calibrated."""
    has_sigma: bool
    beside: PaperComparison | None
    figures: tuple[ShownAnalysis, ...]
    left_out: tuple[str, ...]
    captions: tuple[ShownSearch, ...]
    images: tuple[ShownSearch, ...]
    environment: tuple[tuple[str, str], ...]
    commands: tuple[str, ...]
    notes: tuple[str, ...]


def gather(
    run: str | Path,
    *,
    split: str = "test",
    data_root: Path | None = None,
    workers: int = 2,
    progress: Progress = silent,
) -> RunReport:
    """Evaluate a run on a split, compute all analyses that apply, and search."""
    engine()  # a missing library is reported before the work
    confidence = Confidence.load(run)
    problems = Problems()
    subject = analysis.open_run(
        run, split=split, data_root=data_root, workers=workers, problems=problems, progress=progress
    )
    embedded, recipe, score = subject.embedded, subject.model.recipe, subject.model.score()
    scoring = named(progress, "scores")
    result = evaluate_score(score, embedded.images, embedded.captions, subject.protocol, progress=scoring)
    obstacles = {name: analysis.create(name).obstacle(subject) for name in analysis.names()}
    return RunReport(
        run=Path(run).name,
        recipe=recipe,
        evaluation=result,
        readings=subject.dataset.readings,
        probability=score.is_log_probability,
        calibrated=confidence is not None,
        has_sigma=subject.has_sigma,
        beside=_beside(split, result),
        figures=tuple(_figures(subject, progress)),
        left_out=tuple(f"{name} {obstacle}" for name, obstacle in obstacles.items() if obstacle is not None),
        captions=by_captions(subject, confidence),
        images=by_images(subject, confidence),
        environment=(("machine", f"{platform.system()} {platform.machine()}"), *versions().items()),
        commands=tuple(_commands(recipe, Path(run).name, split)),
        notes=(*subject.protocol.notes, *((problems.summary(),) if problems else ())),
    )


def _figures(subject: Subject, progress: Progress) -> Iterator[ShownAnalysis]:
    names = analysis.applicable(subject)
    for name in dict.fromkeys([*(name for name in FIRST if name in names), *names]):
        chosen = analysis.create(name)
        result = chosen.compute(subject, named(progress, name))
        picture = plots.svg(chosen.figure(result, subject))
        yield ShownAnalysis(name, analysis.registry.summary(name), chosen.reading, picture, result.numbers())


def _beside(split: str, result: Evaluation) -> PaperComparison | None:
    """The paper's PCME row for the data it has in common with us."""
    table = paper.OF_SPLIT.get(result.dataset)
    if table is None:
        return None
    metrics = {"i2t": result.i2t.metrics, "t2i": result.t2i.metrics}
    ours = {f"{direction} {name}": 100 * value for direction in metrics for name, value in metrics[direction].items()}
    values = [
        (column, theirs, ours[column])
        for column in table.columns
        if (theirs := table.value("PCME", column)) is not None and column in ours
    ]
    caution = (
        f"The paper trains a {table.backbone} on a GPU on the whole dataset; this run has "
        f"{result.gallery:,} images and {result.queries:,} captions in its {split} split and the "
        "recipe below. Figures compare only where data, backbone and schedule are the same."
    )
    return PaperComparison(table.name, tuple(values), caution)


def _commands(recipe: Recipe, run: str, split: str) -> Iterator[str]:
    """The commands that make all of it again, from nothing."""
    folder = f"runs/{run}"
    yield _training(recipe, folder)
    yield shlex.join(["pcme", "evaluate", folder, "--split", split])
    yield shlex.join(["pcme", "analyze", folder, "all", "--split", split])
    yield shlex.join(["pcme", "report", folder, "--split", split, "--out", "report.html"])


def _training(recipe: Recipe, folder: str) -> str:
    """The command that trains this recipe: a named one with changes, or a file."""
    if recipe.name not in recipes.names():
        return shlex.join(["pcme", "train", f"{folder}/recipe.json", "--out", folder])
    base = recipes.get(recipe.name).record()
    options = ["--out", folder]
    for key, value in recipe.record().items():
        if value != base[key] and key != "seed":
            options += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    if recipe.seed != base["seed"]:
        options += ["--seed", str(recipe.seed)]
    return shlex.join(["pcme", "train", recipe.name, *options])
