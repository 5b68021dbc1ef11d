"""pcme analyze: what a model's uncertainty means, in numbers and figures."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pcme.cli.output import DataRoot, Json, Split, Workers, print_json, print_table, progress_bars
from pcme.core.files import ensure_folder
from pcme.core.progress import named
from pcme.errors import ConfigError

if TYPE_CHECKING:
    from pcme.analysis import Analysis, Number, Subject


ALL = "all"


def analyze(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The run's folder.")],
    what: Annotated[list[str], typer.Argument(metavar="WHAT", help='Names (`pcme list analyses`), or "all" that fit.')],
    *,
    data_root: DataRoot = None,
    split: Split = "test",
    out: Annotated[Path | None, typer.Option(help="Folder for the results (default: RUN/analysis/SPLIT).")] = None,
    changes: Annotated[
        list[str] | None, typer.Option("--set", help="Change a parameter of the one analysis named: bins=5.")
    ] = None,
    numbers_only: Annotated[
        bool, typer.Option("--numbers-only", help="Draw no figures; matplotlib is not needed.")
    ] = False,
    workers: Workers = 2,
    as_json: Json = False,
) -> None:
    """Analyse a model's uncertainty: print numbers, write JSON, SVG and PNG to a folder."""
    from pcme import analysis, plots
    from pcme.data.problems import Problems

    if not numbers_only:
        plots.require()  # before the work, not after it
    if out is not None:
        ensure_folder(out, "the results' folder")  # before the work, not after it
    problems = Problems()
    with progress_bars() as progress:
        subject = analysis.open_run(
            run, split=split, data_root=data_root, workers=workers, problems=problems, progress=progress
        )
        chosen = _chosen(what, subject, changes or [])
        folder = ensure_folder(out or run / "analysis" / split, "the results' folder")
        about = {"run": str(run), "split": split, "method": subject.model.recipe.method.kind}
        results, files = {}, {}
        for name, each in chosen.items():  # each is written before the next may fail
            results[name] = each.compute(subject, named(progress, name))
            analysis.write(folder / f"{name}.json", name, results[name], about)
            files[name] = [folder / f"{name}.json"]
            if not numbers_only:
                files[name] += plots.save(each.figure(results[name], subject), folder / name)
    if as_json:
        records = [
            {"analysis": name, "numbers": list(map(asdict, result.numbers())), "files": list(map(str, files[name]))}
            for name, result in results.items()
        ]
        print_json({**about, "out": str(folder), "analyses": records})
    else:
        for name, result in results.items():
            _print_numbers(name, result.numbers())
        typer.echo(f"\nwrote {folder}: {', '.join(results)}")
    if problems:
        typer.echo(problems.summary(), err=True)


def _chosen(what: list[str], subject: Subject, changes: list[str]) -> dict[str, Analysis[Any]]:
    """The analyses that a user names, in their order."""
    from pcme import analysis

    if changes and (len(what) > 1 or what == [ALL]):
        raise ConfigError(
            f"--set: changes one analysis, got {', '.join(what)}. Name it alone, as in: bins --set bins=5."
        )
    if what != [ALL]:
        for name in what:
            analysis.require(name, subject)
        return {name: analysis.configured(name, changes) for name in what}
    every = {name: analysis.create(name) for name in analysis.names()}
    obstacles = {name: each.obstacle(subject) for name, each in every.items()}
    for name, obstacle in obstacles.items():
        if obstacle is not None:
            typer.echo(f"left out: {name} {obstacle}", err=True)
    return {name: each for name, each in every.items() if obstacles[name] is None}


def _print_numbers(name: str, numbers: tuple[Number, ...]) -> None:
    """Print a table; a meaning that several numbers share is printed once."""
    typer.echo()
    rows, last = [], ""
    for number in numbers:
        meaning = "" if number.meaning == last else f" ({number.meaning})"
        rows.append((number.shown, " to ".join(number.ends or ()), f"{number.name}{meaning}"))
        last = number.meaning
    print_table(("value", "95 % interval", name), rows)
