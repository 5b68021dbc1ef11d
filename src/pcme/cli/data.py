"""pcme data: list, check, preview."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pcme.cli.output import Json, Workers, print_json, print_outcome, print_table, progress_bars

if TYPE_CHECKING:
    from pcme.data import Dataset
    from pcme.data.check import SplitReport


app = typer.Typer(no_args_is_help=True, epilog="[bold]Example:[/bold] pcme data preview aviary --out sheet.png")

Where = Annotated[
    str,
    typer.Argument(
        metavar="NAME_OR_PATH", help="A dataset's name (its folder is looked for below $PCME_DATA), or its folder."
    ),
]
Splits = Annotated[list[str] | None, typer.Option("--split", help="Only this split; may be given several times.")]


@app.command("list", epilog="[bold]Example:[/bold] pcme data list --json")
def list_datasets(*, as_json: Json = False) -> None:
    """List the datasets that can be read, and what their folders must hold."""
    from pcme import data

    records = [
        {
            "name": name,
            "aliases": [alias for alias, target in data.registry.aliases().items() if target == name],
            "summary": data.registry.summary(name),
            "layout": data.registry.get(name).layout or "nothing: it is drawn",
        }
        for name in data.names()
    ]
    if as_json:
        print_json(records)
        return
    rows = [(str(each["name"]), f"{each['summary']}\n  {each['layout']}\n") for each in records]
    print_table(("name", "what it is and what its folder holds"), rows)


@app.command(epilog="[bold]Examples:[/bold] pcme data check aviary · pcme data check photos/ --strict")
def check(
    where: Where,
    *,
    split: Splits = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first problem (exit status 2).")] = False,
    workers: Workers = 2,
    as_json: Json = False,
) -> None:
    """Read a dataset as training would: decode every image, count, and name what is wrong."""
    from pcme.data import Problems, find, registry
    from pcme.data.check import check_split

    dataset, problems = find(where), Problems(strict=strict)
    name, parameters = registry.name_of(type(dataset)), {key: str(value) for key, value in vars(dataset).items()}
    _quiet_pillow()
    with progress_bars() as progress:
        reports = [
            check_split(dataset, part, problems, workers=workers, progress=progress) for part in _chosen(dataset, split)
        ]
    if as_json:
        splits = [asdict(report) for report in reports]
        print_json({"dataset": name, "parameters": parameters, "splits": splits, "problems": problems.record()})
        return
    typer.echo(f"{name} ({', '.join(f'{key}={value}' for key, value in parameters.items())})")
    print_table(("split", "holds"), [(report.split, _described(report)) for report in reports])
    typer.echo(problems.summary() or "no problems")


@app.command(epilog="[bold]Example:[/bold] pcme data preview aviary --out sheet.png")
def preview(
    where: Where,
    *,
    out: Annotated[Path, typer.Option(help="The image to write: .png or .jpg.")],
    split: Splits = None,
    images: Annotated[int, typer.Option(help="Images of each split.", min=1, max=200)] = 12,
    columns: Annotated[int, typer.Option(help="Images in a row.", min=1, max=20)] = 6,
    seed: Annotated[int, typer.Option(help="Chooses the images.")] = 0,
    as_json: Json = False,
) -> None:
    """Draw a contact sheet: images, captions, how many images each caption fits, by split."""
    from pcme.data import Problems, find
    from pcme.data.sheet import contact_sheet, save_sheet

    dataset, problems = find(where), Problems()
    _quiet_pillow()
    with progress_bars() as progress:
        names = _chosen(dataset, split)
        loaded = []
        for done, name in enumerate(names, start=1):
            loaded.append(dataset.with_missing().load(name, problems))
            progress("reading", done, len(names))
        sheet = contact_sheet(loaded, problems, images=images, columns=columns, seed=seed)
    save_sheet(sheet, out)
    text = f"wrote {out} ({sheet.width} x {sheet.height})"
    print_outcome({"out": str(out), "splits": names}, text, problems, as_json=as_json)


def _chosen(dataset: Dataset, splits: list[str] | None) -> list[str]:
    return [dataset.checked_split(name) for name in splits or dataset.splits]


def _quiet_pillow() -> None:
    """Ignore Pillow's warnings, which are of flawed metadata; the summary has the problems."""
    warnings.filterwarnings("ignore", module=r"PIL\.")


def _described(report: SplitReport) -> str:
    """Two or three lines about a split."""
    published = "" if report.listed is None else f" (of {report.listed:,} published)"
    per_image, per_caption = _range(report.captions_per_image), _range(report.multiplicity)
    lines = [
        f"{report.images:,} images{published}, {_decoded(report)}",
        f"{report.captions:,} captions, {per_image} an image; images a caption fits: {per_caption}",
    ]
    counts = {"classes": report.classes, "labels": report.labels, "images without a label": report.unlabelled}
    kinds = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return "\n".join([*lines, kinds] if kinds else lines)


def _decoded(report: SplitReport) -> str:
    if report.width is None or report.height is None:
        return "none of which can be decoded"
    share = "all" if report.decoded == report.images else f"{report.decoded:,}"
    return f"{share} decoded, {_range(report.width)} x {_range(report.height)} pixels"


def _range(values: tuple[int, float, int]) -> str:
    """ "5", or "1 to 12 (median 3)"."""
    least, median, largest = values
    if least == largest:
        return f"{least:,}"
    return f"{least:,} to {largest:,} (median {median:,.0f})"
