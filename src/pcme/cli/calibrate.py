"""pcme calibrate: calibrated match probabilities, and the no-match rule."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pcme.cli.output import Json, Workers, print_outcome, print_table, progress_bars

if TYPE_CHECKING:
    from pcme.uncertainty import CalibrationReport

SHOWN = (100, 90, 80, 50)
"""Coverages, in per cent, at which the risk is shown."""


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
        calibrated = run(
            model, dataset, method=method, false_alarm=false_alarm, problems=problems,
            workers=workers, progress=progress,
        )  # fmt: skip
    presence, path = calibrated.confidence.presence, calibrated.confidence.save(out or model)
    if not as_json:
        _print_report(calibrated.report)
    reach = "any number of" if presence.reach() == float("inf") else f"about {presence.reach():,.0f}"
    record = {
        "out": str(path),
        "basis": asdict(calibrated.confidence.basis),
        "answerable": {
            "threshold": presence.threshold(),
            "gallery": presence.gallery,
            "growth": presence.growth,
            "false_alarm": presence.false_alarm,
            "reach": presence.reach(),
        },
        "report": asdict(calibrated.report),
    }
    text = f"\nThe share of false alarms is held among up to {reach} items.\nwrote {path}"
    print_outcome(record, text, problems, as_json=as_json)


def _print_report(report: CalibrationReport) -> None:
    raw, mapped = report.raw, report.calibrated
    title = f"assessed on {report.captions:,} captions, {report.images:,} images"
    qualities = [
        ("calibration error, all pairs", f"{raw.error:.4f}", f"{mapped.error:.4f}"),
        ("calibration error, first hits", f"{raw.first_error:.4f}", f"{mapped.first_error:.4f}"),
        ("log loss, nats per pair", f"{raw.log_loss:.4f}", f"{mapped.log_loss:.4f}"),
        ("Σ p per match", f"{report.raw_expected:.3f}", f"{report.expected:.3f}"),
    ]
    print_table((title, "raw", "calibrated"), qualities)
    typer.echo()
    title = f"best p ≥ {report.threshold:.4f} is answered"
    separations = {"its own matches removed": report.removed, "matches nothing here": report.unmatched}
    rows = [
        (text, f"{s.auroc:.3f}", f"{100 * s.recall:.1f} %", f"{100 * s.false_alarm:.1f} %")
        for text, s in separations.items()
        if s is not None
    ]
    print_table((title, "AUROC", "answered", "false alarms"), rows)
    typer.echo()
    refusals = {"the least p refused": report.by_p, "the largest σ refused": report.by_sigma}
    risks = [
        (text, *(f"{100 * risk.curve.covering(share / 100).risk:.2f}" for share in SHOWN), f"{100 * risk.area:.2f}")
        for text, risk in refusals.items()
        if risk is not None
    ]
    print_table(("wrong first hits, %", *(f"of {share} %" for share in SHOWN), "mean"), risks)
