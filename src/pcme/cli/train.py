"""pcme train, pcme show: from a recipe to a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pcme.cli.output import DataRoot, Json, print_json, print_outcome, print_table

if TYPE_CHECKING:
    from pcme.data import Problems
    from pcme.recipes.schema import Recipe
    from pcme.training.folds import CrossValidation


Name = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe's name, or a .toml or .json file.")]


def train(
    recipe: Name,
    *,
    out: Annotated[Path, typer.Option(help="The run's folder.")],
    data_root: DataRoot = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a key: method.samples=3. May be given several times.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The seed of everything random.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the newest checkpoint.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first image or caption with a problem.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Threads that make batches.", min=0)] = 2,
    folds: Annotated[
        bool, typer.Option("--folds", help="Cross-validate on the folds of the data's training classes.")
    ] = False,
    compiled: Annotated[
        bool, typer.Option("--compile", help="Send the image backbone through torch.compile; the first step is slow.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Train a model: the run's folder gets its weights, metrics, model card and checkpoints.

    With --folds it gets a run per fold, and folds.json with the mean and the standard deviation of their metrics.
    """
    from pcme.cli.reporter import training_bar
    from pcme.training import train as run
    from pcme.training.folds import CrossValidation, cross_validate

    chosen = _recipe(recipe).changed([*(changes or ()), *(() if seed is None else (f"seed={seed}",))])
    with training_bar() as reporter:
        found = (cross_validate if folds else run)(
            chosen, out, data_root=data_root, resume=resume, workers=workers, strict=strict, reporter=reporter,
            compiled=compiled,
        )  # fmt: skip
    if isinstance(found, CrossValidation):
        _print_folds(found, out, reporter.problems, as_json=as_json)
        return
    metrics = reporter.metrics
    if metrics and not as_json:
        columns = list(next(iter(metrics.values())))
        rows = [(side, *(f"{100 * values[name]:.1f}" for name in columns)) for side, values in metrics.items()]
        print_table(("validation, %", *columns), rows)
    record = {"run": str(out), "recipe": chosen.name, "validation": metrics}
    print_outcome(record, f"wrote {out}", reporter.problems, as_json=as_json)


def show(
    recipe: Name,
    *,
    diff: Annotated[str | None, typer.Option(help="Print differences from this recipe.")] = None,
    as_json: Json = False,
) -> None:
    """Print a recipe, or its differences from another."""
    from pcme.recipes import difference

    if diff is None:
        print_json(_recipe(recipe).record())
        return
    changes = difference(_recipe(recipe), _recipe(diff))
    if as_json:
        print_json({key: {"base": base, "recipe": changed} for key, (base, changed) in changes.items()})
    else:
        print_table(("key", diff, recipe), [(key, *map(str, values)) for key, values in changes.items()])


def _print_folds(found: CrossValidation, out: Path, problems: Problems, *, as_json: bool) -> None:
    """Print the metrics of every fold, and their mean and standard deviation."""
    from pcme.training.folds import FILE

    if not as_json:
        columns = list(found.mean["i2t"])
        rows = [
            (f"{run.run}, {run.fold.val}", way, *(f"{100 * values[name]:.1f}" for name in columns))
            for run in found.runs
            for way, values in run.figures.items()
        ]
        for way, values in found.mean.items():
            spread = found.deviation[way]
            rows.append(("mean", way, *(f"{100 * values[name]:.1f} ± {100 * spread[name]:.1f}" for name in columns)))
        print_table(("cross-validation, %", "", *columns), rows)
        typer.echo(found.division.note)
    print_outcome({"run": str(out), **found.record()}, f"wrote {out / FILE}", problems, as_json=as_json)


def _recipe(name: str) -> Recipe:
    from pcme import recipes
    from pcme.recipes.schema import from_file

    path = Path(name)
    return from_file(path) if path.suffix in (".toml", ".json") else recipes.get(name)
