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
    """The paper's own values for this data, in per cent, and why they are not comparable."""

    source: str
    values: tuple[tuple[str, float, float], ...]
    """(metric, the paper's, ours)."""
    caution: str


@dataclass(frozen=True)
class RunReport:
    """All that the page says."""

    run: str
    recipe: Recipe
    evaluation: Evaluation
    readings: tuple[str, ...]
    """Those that the split names, beside its own matches."""
    probability: bool
    """Whether scores are match probabilities."""
    calibrated: bool
    """Whether the probabilities of searches are calibrated."""
    has_sigma: bool
    """Whether the queries of searches stand in the order of their widths."""
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
    found, recipe = subject.embedded, subject.model.recipe
    told = named(progress, "scores")
    score = subject.model.score()
    result = evaluate_score(score, found.images, found.captions, subject.protocol, progress=told)
    problem = (problems.summary(),) if problems else ()
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
        left_out=tuple(_left_out(subject)),
        captions=by_captions(subject, confidence),
        images=by_images(subject, confidence),
        environment=tuple(_environment()),
        commands=tuple(_commands(recipe, Path(run).name, split)),
        notes=(*subject.protocol.notes, *problem),
    )


def _figures(subject: Subject, progress: Progress) -> Iterator[ShownAnalysis]:
    for name in sorted(analysis.applicable(subject), key=_order):
        one = analysis.create(name)
        result = one.compute(subject, named(progress, name))
        picture = plots.svg(one.figure(result, subject))
        question = analysis.registry.summary(name)
        yield ShownAnalysis(name, question, one.reading, picture, result.numbers())


def _order(name: str) -> tuple[int, str]:
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)


def _left_out(subject: Subject) -> Iterator[str]:
    for name in analysis.names():
        if (why := analysis.create(name).obstacle(subject)) is not None:
            yield f"{name} {why}"


def _beside(split: str, result: Evaluation) -> PaperComparison | None:
    """The paper's PCME row for the data it has in common with us."""
    table = paper.OF_SPLIT.get(result.dataset)
    if table is None:
        return None
    ours = {
        f"{way} {name}": 100 * value for way in ("i2t", "t2i") for name, value in result.direction(way).metrics.items()
    }
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


def _environment() -> Iterator[tuple[str, str]]:
    yield "machine", f"{platform.system()} {platform.machine()}"
    yield from versions().items()


def _commands(recipe: Recipe, run: str, split: str) -> Iterator[str]:
    """What makes all of it again, from nothing."""
    yield _training(recipe, run)
    yield shlex.join(["pcme", "evaluate", f"runs/{run}", "--split", split])
    yield shlex.join(["pcme", "analyze", f"runs/{run}", "all", "--split", split])
    yield shlex.join(["pcme", "report", f"runs/{run}", "--split", split, "--out", "report.html"])


def _training(recipe: Recipe, run: str) -> str:
    """The command that trains this recipe: a named one with changes, or a file."""
    if recipe.name not in recipes.names():
        return shlex.join(["pcme", "train", f"runs/{run}/recipe.json", "--out", f"runs/{run}"])
    base, own = recipes.get(recipe.name).record(), recipe.record()
    changes = [
        part
        for key, value in own.items()
        if value != base[key] and key != "seed"
        for part in ("--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}")
    ]
    seed = ["--seed", str(recipe.seed)] if recipe.seed != base["seed"] else []
    return shlex.join(["pcme", "train", recipe.name, "--out", f"runs/{run}", *changes, *seed])
