"""pcme evaluate: measure a run, or what others computed, on a split, by one score or several."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pcme.cli.output import DataRoot, Json, Split, Workers, print_json, print_table, progress_bars
from pcme.core import files
from pcme.errors import ConfigError

if TYPE_CHECKING:
    from pcme.evaluation import Estimate, Evaluation, EvaluationReport


NAMES = {
    "r_precision": "R-Precision",
    "recall@1": "Recall@1",
    "recall@5": "Recall@5",
    "recall@10": "Recall@10",
    "rsum": "RSUM",
    "map@r": "mAP@R",
    "median_rank": "median rank",
    "mean_rank": "mean rank",
    "chance": "R-Precision by chance",
    "pmrp": "PMRP, mean",
    "pmrp@0": "PMRP, ζ = 0",
    "pmrp@1": "PMRP, ζ = 1",
    "pmrp@2": "PMRP, ζ = 2",
}
"""Titles of the metrics in the table."""

RANKS = ("median_rank", "mean_rank")


def evaluate(
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="The run's folder; none where files are given.")
    ] = None,
    *,
    embeddings: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="IMAGES CAPTIONS",
            help="Instead of a run: two files of embeddings, .npy, .npz, .safetensors or .parquet.",
        ),
    ] = None,
    scores_matrix: Annotated[
        Path | None,
        typer.Option(help="Instead of a run: a .npy file of scores, a row per image and a column per caption."),
    ] = None,
    data: Annotated[str | None, typer.Option(help="With files: the dataset's name, or its folder.")] = None,
    ids: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            metavar="IMAGES CAPTIONS",
            help="With files: text files with the id of each row; without them rows are in the order of the split.",
        ),
    ] = None,
    data_root: DataRoot = None,
    split: Split = "test",
    scores: Annotated[
        str | None,
        typer.Option(
            help='"all", or names as in mean,csd or match_prob:samples=3. Without it the model\'s own; of files cosine '
            "for points, and mean, csd and match_prob for Gaussians."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for per-query values, one file per score.")] = None,
    workers: Workers = 2,
    as_json: Json = False,
) -> None:
    """Measure retrieval in both directions on a split, of a run or of files, with 95 % confidence intervals."""
    from pcme import evaluation

    _require_one(run, embeddings, scores_matrix, data=data, ids=ids, scores=scores)
    with ExitStack() as stack:
        if out is not None:
            stack.enter_context(files.prepared(out, "the results' folder"))  # before the work, not after it
        progress = stack.enter_context(progress_bars())
        if run is not None:
            report = evaluation.evaluate(
                run, data_root=data_root, split=split, scores=scores, workers=workers, progress=progress
            )
        elif embeddings is not None:
            report = evaluation.evaluate_embeddings(
                *embeddings, str(data), data_root=data_root, split=split, scores=scores, ids=ids, progress=progress
            )
        else:
            report = evaluation.evaluate_matrix(
                str(scores_matrix), str(data), data_root=data_root, split=split, ids=ids, progress=progress
            )
    if out is not None:
        report.save(out)
    for note in report.notes:
        typer.echo(note, err=True)
    if report.problems:
        typer.echo(report.problems.summary(), err=True)
    if as_json:
        records = [{**each.record(), "score": label} for label, each in zip(report.labels, report.results, strict=True)]
        print_json(records if len(records) > 1 else records[0])
        return
    first = report.results[0]
    typer.echo(f"{first.dataset}: {first.gallery:,} images, {first.queries:,} captions")
    if len(report.results) == 1:
        _print_one(first)
    else:
        _print_several(report)
    if out is not None:
        typer.echo(f"wrote {out}")


def _require_one(
    run: Path | None,
    embeddings: tuple[Path, Path] | None,
    scores_matrix: Path | None,
    *,
    data: str | None,
    ids: tuple[Path, Path] | None,
    scores: str | None,
) -> None:
    """Refuse options that do not go together."""
    sources = {"RUN": run, "--embeddings": embeddings, "--scores-matrix": scores_matrix}
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        raise ConfigError(f"{', '.join(sources)}: must be one of them, got {' and '.join(given) or 'none'}. Give one.")
    if run is not None and (data is not None or ids is not None):
        option = "--data" if data is not None else "--ids"
        raise ConfigError(f"{option}: goes with files, got the run {run}, which knows its data. Leave it out.")
    if run is None and data is None:
        raise ConfigError(f"--data: is missing. Say whose rows {given[0]} has, as in --data coco --data-root PATH.")
    if scores_matrix is not None and scores is not None:
        raise ConfigError(f"--scores: a matrix has its scores already, got {scores}. Leave it out.")


def _print_one(result: Evaluation) -> None:
    """Every metric of one score, in both directions."""
    from pcme.evaluation import intervals

    directions = [(each.metrics, intervals(each)) for each in (result.i2t, result.t2i)]
    names = list(dict.fromkeys(name for metrics, _ in directions for name in metrics))
    rows = [(_title(name), *(_cell(name, metrics, spans) for metrics, spans in directions)) for name in names]
    parameters = ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in result.parameters.items()
    )
    score = f"{result.score} ({parameters})" if parameters else result.score
    print_table((f"by {score}", "images → captions", "captions → images"), rows)
    typer.echo(f"RSUM of both ways: {result.rsum:.1f}")
    typer.echo("in %, but for ranks and RSUM; in brackets the 95 % interval over queries")


def _print_several(report: EvaluationReport) -> None:
    """The two main metrics of each score in both directions, and its cost."""
    from pcme.evaluation import intervals

    shown = ("r_precision", "recall@1")
    rows = []
    for label, result, cost in zip(report.labels, report.results, report.costs, strict=True):
        directions = [(each.metrics, intervals(each, shown)) for each in (result.i2t, result.t2i)]
        cells = [_short(metrics[name], spans[name]) for metrics, spans in directions for name in shown]
        figures = (None, None, None) if cost is None else (cost.numbers, cost.bytes, cost.work)
        rows.append((label, *cells, *("–" if figure is None else f"{figure:,}" for figure in figures)))
    columns = ("score, %", "R-P i2t", "R@1 i2t", "R-P t2i", "R@1 t2i", "size", "bytes", "work")
    print_table(columns, rows)
    typer.echo(
        "± is half of the 95 % interval over queries; size: numbers kept of an item, in bytes too; "
        "work: multiply-adds for a pair. --json and --out have all figures"
    )


def _title(name: str) -> str:
    prefix, _, base = name.rpartition(" ")
    return f"{prefix.upper()} {NAMES.get(base, base)}".strip()


def _short(value: float, span: Estimate) -> str:
    """ "26.3±1.1", in per cent."""
    if math.isnan(value):
        return "–"
    half = (span.high - span.low) / 2
    return f"{100 * value:.1f}" + ("" if math.isnan(half) else f"±{100 * half:.1f}")


def _cell(name: str, metrics: Mapping[str, float], spans: Mapping[str, Estimate]) -> str:
    """ "26.3 [25.1, 27.4]", or a dash for a metric without a value."""
    if name not in metrics or math.isnan(metrics[name]):
        return "–"
    factor = 1 if name.endswith(RANKS) else 100
    value, low, high = (factor * x for x in (metrics[name], spans[name].low, spans[name].high))
    return f"{value:.1f}" if math.isnan(low) else f"{value:.1f} [{low:.1f}, {high:.1f}]"
