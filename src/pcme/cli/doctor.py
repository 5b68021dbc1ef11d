"""pcme doctor: what this machine can do, and whether its devices compute the same numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pcme.cli.output import Json, print_json, print_table, progress_bars

if TYPE_CHECKING:
    from pcme.evaluation.parity import Parity


def doctor(
    *,
    parity: Annotated[
        bool, typer.Option(help="Compare every score and loss on every device with the CPU: some ten seconds.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Check this machine: versions, devices, data, caches, and the numbers that its devices compute.

    Exit status 2 means that a device computes other numbers.
    """
    from pcme.core.versions import versions
    from pcme.evaluation.machine import describe_caches, describe_data, describe_devices

    facts = {
        "versions": versions(),
        "devices": describe_devices(),
        "data": describe_data(),
        "caches": describe_caches(),
    }
    checks = _parities(list(facts["devices"])) if parity else {}
    differing = [f"{name} on {device}" for device, each in checks.items() for name in _differing(each)]
    if as_json:
        compared = {
            device: {check.name: {"difference": check.difference, "seconds": check.seconds} for check in each}
            for device, each in checks.items()
        }
        print_json({**facts, "parity": compared, "differing": differing})
    else:
        for title, values in facts.items():
            print_table((title, ""), list(values.items()) or [("none", "")])
            typer.echo()
        _print_parity(checks)
    if differing:
        typer.echo(f"pcme: other numbers than the CPU's: {', '.join(differing)}", err=True)
        raise typer.Exit(2)


def _parities(devices: list[str]) -> dict[str, list[Parity]]:
    import torch

    from pcme import methods, scores
    from pcme.evaluation.parity import parity

    checks: dict[str, list[Parity]] = {}
    total = 2 * len(scores.names()) + len(methods.names())
    with progress_bars() as progress:
        for device in devices:
            checks[device] = []
            for number, check in enumerate(parity(torch.device(device)), 1):
                checks[device].append(check)
                progress(f"parity on {device}", number, total)
    return checks


def _differing(checks: list[Parity]) -> list[str]:
    return [check.name for check in checks if not check.ok]


def _print_parity(checks: dict[str, list[Parity]]) -> None:
    from pcme.evaluation.parity import TOLERANCE

    rows = []
    for device, each in checks.items():
        worst = max(each, key=lambda check: check.difference)
        text = f"{worst.difference:.0e} at the most ({worst.name}), {sum(c.seconds for c in each):.1f} s"
        rows.append((device, str(len(each)), str(len(_differing(each))), text))
    if rows:
        print_table(("parity with compiled loops", "checks", f"beyond {TOLERANCE:.0e}", "difference"), rows)
