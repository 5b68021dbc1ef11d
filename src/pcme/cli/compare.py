"""pcme compare: is one run better than another on the same queries?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pcme.cli.output import DataRoot, Json, Split, Workers, print_json, print_table, progress_bars

if TYPE_CHECKING:
    from pcme.evaluation import Comparison, Difference, Estimate
    from pcme.evaluation.results import DirectionName


DIRECTIONS: dict[DirectionName, str] = {"i2t": "images → captions", "t2i": "captions → images"}


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    example = "pcme compare runs/mu runs/aviary --metric recall@1"
    app.command(epilog=f"[bold]Example:[/bold] {example}")(compare)


def compare(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Two folders of runs or more, or .npz files of `pcme evaluate --out`; the first "
            "is what the others are compared with.",
        ),
    ],
    *,
    metric: Annotated[str, typer.Option(help="The metric to compare by.")] = "r_precision",
    data_root: DataRoot = None,
    split: Split = "test",
    workers: Workers = 2,
    as_json: Json = False,
) -> None:
    """Test whether runs differ on the same queries: differences, 95 % intervals, p-values."""
    from pcme.evaluation import compare as run_comparison

    with progress_bars() as progress:
        found = run_comparison(
            runs, metric=metric, data_root=data_root, split=split, workers=workers, progress=progress
        )
    if as_json:
        print_json(_record(found))
    else:
        _print(found)


def _record(found: Comparison) -> dict[str, Any]:
    results = found.results.items()
    return {
        "metric": found.metric,
        "dataset": found.results[found.base].dataset,
        "base": found.base,
        "runs": [
            {
                "run": name,
                "score": result.score,
                "i2t": _finite(result.i2t.metric(found.metric)),
                "t2i": _finite(result.t2i.metric(found.metric)),
            }
            for name, result in results
        ],
        "differences": [
            {
                "run": each.run,
                "direction": each.direction,
                "difference": _finite(each.difference.value),
                "interval": [_finite(each.difference.low), _finite(each.difference.high)],
                "p": each.p,
                "p_holm": each.adjusted,
            }
            for each in found.differences
        ],
    }


def _finite(value: float) -> float | None:
    """None for NaN, which JSON does not have."""
    return None if math.isnan(value) else value


def _print(found: Comparison) -> None:
    first = found.results[found.base]
    typer.echo(f"{first.dataset}: {first.gallery:,} images, {first.queries:,} captions")
    rows = [row for way, title in DIRECTIONS.items() for row in _rows(found, way, title)]
    unit = "" if found.metric.endswith("rank") else ", %"
    p = "p (Holm)" if len(found.results) > 2 else "p"
    print_table(("run", found.metric + unit, "difference", "95 % interval", p), rows)
    typer.echo(
        "intervals and p are of these queries, whole classes (or images) drawn; they say nothing of other trainings"
    )


def _rows(found: Comparison, way: DirectionName, title: str) -> Iterator[tuple[str, ...]]:
    """A direction's title, then a line for each run."""
    yield (title, "", "", "", "")
    changes = {each.run: each for each in found.differences if each.direction == way}
    for name, shown in _short_names(list(found.results)).items():
        figure = found.results[name].direction(way).metric(found.metric)
        yield (f"  {shown}", *_cells(figure, changes.get(name), found.metric))


def _short_names(runs: list[str]) -> dict[str, str]:
    """The last part of each path, where that tells them apart."""
    last = {name: Path(name).name for name in runs}
    return last if len(set(last.values())) == len(runs) else {name: name for name in runs}


def _cells(figure: float, change: Difference | None, metric: str) -> tuple[str, str, str, str]:
    factor = 1 if metric.endswith("rank") else 100
    if change is None:
        return (f"{factor * figure:.2f}", "", "", "")
    return (
        f"{factor * figure:.2f}",
        f"{factor * change.difference.value:+.2f}",
        _interval(change.difference, factor),
        f"{change.adjusted:.4f}",
    )


def _interval(span: Estimate, factor: int) -> str:
    """A dash where a single class says nothing of others."""
    if math.isnan(span.low):
        return "–"
    return f"[{factor * span.low:+.2f}, {factor * span.high:+.2f}]"
