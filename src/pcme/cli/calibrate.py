"""pcme calibrate: calibrated match probabilities, and the no-match rule."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pcme.cli.output import Json, Workers, print_json, print_table, progress_bars

if TYPE_CHECKING:
    from pcme.uncertainty import CalibrationReport
    from pcme.uncertainty.calibrate import Calibrated

SHOWN = (100, 90, 80, 50)
"""Coverages, in per cent, at which the risk is shown."""


def register(app: typer.Typer) -> None:
    """Add the verb to the program."""
    app.command(epilog="[bold]Example:[/bold] pcme calibrate runs/aviary aviary")(calibrate)


def calibrate(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of a model.")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A dataset's name (its folder is below $PCME_DATA), or its folder.")
    ],
    *,
    split: Annotated[str, typer.Option(help="A split that the model was not trained on.")] = "val",
    method: Annotated[
        str, typer.Option(help="isotonic (any rising curve) or platt (a line in log-odds).")
    ] = "isotonic",
    false_alarm: Annotated[float, typer.Option(help="Target false-alarm rate on queries without a match.")] = 0.1,
    out: Annotated[Path | None, typer.Option(help="Folder for confidence.json (default: the model folder).")] = None,
    workers: Workers = 2,
    as_json: Json = False,
) -> None:
    """Calibrate match probabilities on a held-out split and report calibration quality.

    The report is of a fit on half of the classes (or images), assessed on the other half. The
    confidence that is written is fitted on both.
    """
    from pcme.data import Problems, find
    from pcme.uncertainty.calibrate import calibrate as run

    problems = Problems()
    dataset = find(data).load(split, problems)
    with progress_bars() as progress:
        found = run(
            model, dataset, method=method, false_alarm=false_alarm, problems=problems,
            workers=workers, progress=progress,
        )  # fmt: skip
    path = found.confidence.save(out or model)
    if as_json:
        print_json({"out": str(path), **_record(found), "problems": problems.record()})
        return
    _print_report(found.report)
    typer.echo(f"\n{_reach(found)}")
    typer.echo(f"wrote {path}")
    if problems:
        typer.echo(problems.summary(), err=True)


def _record(found: Calibrated) -> dict[str, object]:
    presence = found.confidence.presence
    return {
        "basis": asdict(found.confidence.basis),
        "answerable": {
            "threshold": presence.threshold(),
            "gallery": presence.gallery,
            "growth": presence.growth,
            "false_alarm": presence.false_alarm,
            "reach": presence.reach(),
        },
        "report": asdict(found.report),
    }


def _print_report(report: CalibrationReport) -> None:
    title = f"assessed on {report.captions:,} captions, {report.images:,} images"
    print_table((title, "raw", "calibrated"), _qualities(report))
    typer.echo()
    print_table(
        (f"best p ≥ {report.threshold:.4f} is answered", "AUROC", "answered", "false alarms"), _separations(report)
    )
    typer.echo()
    print_table(("wrong first hits, %", *(f"of {p} %" for p in SHOWN), "mean"), _risks(report))


def _reach(found: Calibrated) -> str:
    reach = found.confidence.presence.reach()
    number = "any number of" if reach == float("inf") else f"about {reach:,.0f}"
    return f"The share of false alarms is held among up to {number} items."


def _qualities(report: CalibrationReport) -> list[tuple[str, str, str]]:
    raw, mapped = report.raw, report.calibrated
    names = {
        "error": "calibration error, all pairs",
        "first_error": "calibration error, first hits",
        "log_loss": "log loss, nats per pair",
    }
    rows = [(text, f"{getattr(raw, name):.4f}", f"{getattr(mapped, name):.4f}") for name, text in names.items()]
    sums = (f"{report.raw_expected:.3f}", f"{report.expected:.3f}")
    return [*rows, ("Σ p per match", *sums)]


def _separations(report: CalibrationReport) -> list[tuple[str, str, str, str]]:
    kinds = {"its own matches removed": report.removed, "matches nothing here": report.unmatched}
    return [
        (text, f"{s.auroc:.3f}", f"{100 * s.recall:.1f} %", f"{100 * s.false_alarm:.1f} %")
        for text, s in kinds.items()
        if s is not None
    ]


def _risks(report: CalibrationReport) -> list[tuple[str, ...]]:
    kinds = {"the least p refused": report.by_p, "the largest σ refused": report.by_sigma}
    return [
        (text, *(f"{100 * risk.curve.covering(percent / 100).risk:.2f}" for percent in SHOWN), f"{100 * risk.area:.2f}")
        for text, risk in kinds.items()
        if risk is not None
    ]
