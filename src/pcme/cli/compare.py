"""pcme compare: is one run better than another on the same queries?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pcme.cli.output import DataRoot, Json, Split, Workers, print_json, print_table, progress_bars

if TYPE_CHECKING:
    from pcme.evaluation import Comparison, Difference
    from pcme.evaluation.results import DirectionName


DIRECTIONS: dict[DirectionName, str] = {"i2t": "images → captions", "t2i": "captions → images"}


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
        comparison = run_comparison(
            runs, metric=metric, data_root=data_root, split=split, workers=workers, progress=progress
        )
    if as_json:
        print_json(_record(comparison))
    else:
        _print(comparison)


def _record(comparison: Comparison) -> dict[str, Any]:
    results, metric = comparison.results, comparison.metric
    return {
        "metric": metric,
        "dataset": results[comparison.base].dataset,
        "base": comparison.base,
        "runs": [
            {"run": run, "score": each.score, "i2t": each.i2t.metric(metric), "t2i": each.t2i.metric(metric)}
            for run, each in results.items()
        ],
        "differences": [
            {
                "run": each.run,
                "direction": each.direction,
                "difference": each.difference.value,
                "interval": [each.difference.low, each.difference.high],
                "p": each.p,
                "p_holm": each.adjusted,
            }
            for each in comparison.differences
        ],
    }


def _print(comparison: Comparison) -> None:
    base = comparison.results[comparison.base]
    typer.echo(f"{base.dataset}: {base.gallery:,} images, {base.queries:,} captions")
    unit = "" if comparison.metric.endswith("rank") else ", %"
    p = "p (Holm)" if len(comparison.results) > 2 else "p"
    print_table(("run", comparison.metric + unit, "difference", "95 % interval", p), _rows(comparison))
    typer.echo(
        "intervals and p are of these queries, whole classes (or images) drawn; they say nothing of other trainings"
    )


def _rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    """Each direction's title, then a line for each run."""
    last = {run: Path(run).name for run in comparison.results}
    if len(set(last.values())) < len(last):  # the last part of each path does not tell them apart
        last = {run: run for run in last}
    for direction, title in DIRECTIONS.items():
        yield (title, "", "", "", "")
        changes = {each.run: each for each in comparison.differences if each.direction == direction}
        for run, result in comparison.results.items():
            value = result.direction(direction).metric(comparison.metric)
            yield (f"  {last[run]}", *_cells(value, changes.get(run), comparison.metric))


def _cells(value: float, change: Difference | None, metric: str) -> tuple[str, str, str, str]:
    factor = 1 if metric.endswith("rank") else 100
    if change is None:
        return (f"{factor * value:.2f}", "", "", "")
    span = change.difference
    # A single class says nothing of others.
    interval = "–" if math.isnan(span.low) else f"[{factor * span.low:+.2f}, {factor * span.high:+.2f}]"
    return f"{factor * value:.2f}", f"{factor * span.value:+.2f}", interval, f"{change.adjusted:.4f}"
