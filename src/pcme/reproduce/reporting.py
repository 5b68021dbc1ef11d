"""Reporting: one document of all results that are kept, and of what was not reproduced."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from pcme.core import files
from pcme.errors import ConfigError
from pcme.reproduce.base import registry
from pcme.reproduce.outcome import Result, read, write
from pcme.reproduce.setups import WORLDS
from pcme.reproduce.tables import document, heading, piped, spent

__all__ = ["kept", "report", "text"]

HEAD = """\
# Results beside the paper's

Written by `{command}`, from the records in {folder}/;
nothing here is typed by hand. The record of a row says how it was trained (`changes`, for
`pcme train RECIPE --set ...`), with the digests of its runs.{note}

**Read the differences, not the sizes.** Another dataset, backbone, dimension and length of training
than the paper's give other sizes. Only the order of the rows can be compared. With *one seed*, a
difference of a point or two says nothing. The tables "what the paper finds" say where this agrees
and where it does not.
"""
TABLES_ONLY = """\
 The figures are left out, because the records have their values:
`pcme reproduce report` draws them."""


def report(out: Path, *, source: Path | None = None, figures: bool = True) -> list[Result]:
    """Write the document of the results kept beside it, in the folder of its name.

    The results of `source` come along. A result is kept as its record and its figures.
    """
    folder = out.with_suffix("")
    if source is not None:
        _take_in(source, folder)
    results = kept(folder)
    if not results:
        raise ConfigError(
            f"there are no results in {folder} - make some with `pcme reproduce`, then "
            "`pcme reproduce report --results runs/reproduce/results`"
        )
    for result in results if figures else ():
        _draw(result, folder)
    files.write_text(out, text(results, folder.name, figures=figures))
    return results


def kept(folder: Path) -> list[Result]:
    """The results in a folder, in the order of the document."""
    return sorted((read(path) for path in _records(folder)), key=_order)


def _take_in(source: Path, folder: Path) -> None:
    """Copy the records of a folder; nothing is made or written before all of them are read."""
    found = {path.name: read(path) for path in _records(source)}
    if not found:
        why = "has no results" if source.exists() else "is not there"
        raise ConfigError(
            f"{source} {why} - give --results a folder that `pcme reproduce` has written: "
            "runs/reproduce/results without --out"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, result in found.items():
        write(result, folder / name)


def _records(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def _draw(result: Result, folder: Path) -> None:
    """Pictures as SVG alone: the document shows nothing else."""
    from pcme.reproduce import pictures

    for path in pictures.save(result, folder / result.name):
        if path.suffix == ".png":
            path.unlink()


def _order(result: Result) -> tuple[int, bool, bool, str]:
    """World by world, the full before the quick, the paper's main tables first."""
    return (
        list(WORLDS).index(result.world),
        result.quick,
        not result.experiment.startswith("table"),
        result.experiment,
    )


def text(results: Sequence[Result], folder: str, *, figures: bool = True) -> str:
    """The document of some results, whose figures lie in `folder`."""
    command = "pcme reproduce report" if figures else "pcme reproduce report --tables-only"
    note = "" if figures else TABLES_ONLY
    parts = [HEAD.format(command=command, folder=folder, note=note), _contents(results)]
    for _, group in groupby(results, key=lambda result: (result.world, result.quick)):
        some = list(group)
        parts.append(_head_of_world(some[0]))
        parts += [
            document(
                result,
                level=3,
                picture=f"{folder}/{result.name}" if figures else None,
                protocol=False,
            )
            for result in some
        ]
    return "\n".join([*parts, _missing(results)])


def _head_of_world(first: Result) -> str:
    name = f"{first.world}, quick" if first.quick else first.world
    return f"## On {name}\n\nHow all of it differs from the paper: {first.protocol}\n"


def _contents(results: Sequence[Result]) -> str:
    lines = [
        ["", "in the paper", "seeds", "the paper's findings with the same sign here"],
        ["---"] * 4,
    ]
    lines += [
        [f"[{heading(result)}](#{_anchor(result)})", result.where, str(result.seeds), _held(result)]
        for result in results
    ]
    return f"{piped(lines)}\n\nAll of it: {spent(results)}.\n"


def _anchor(result: Result) -> str:
    """What a section is called in a link, as GitHub makes it of its heading."""
    kept = [c for c in heading(result).lower() if c.isalnum() or c in " -_"]
    return "".join(kept).replace(" ", "-")


def _held(result: Result) -> str:
    """How many differences have the paper's sign, however sure the seeds are of it."""
    found = [difference.mean for table in result.tables for difference in table.differences]
    return f"{sum(mean > 0 for mean in found)} of {len(found)}"


def _missing(results: Iterable[Result]) -> str:
    """What no record is of, and what would make it."""
    there = {(result.world, result.experiment, result.quick) for result in results}
    lines = ["## Not reproduced here", ""]
    for world in WORLDS.values():
        names = [name for name in registry.names() if world.name in registry.get(name).worlds]
        left = [name for name in names if (world.name, name, False) not in there]
        if left:
            needs = f" Needs {world.needs.rstrip('.')}." if world.needs else ""
            some = ", ".join(left)
            lines += [f"* In full on {world.name}: {some}.{needs} `{world.command('all')}`"]
    lines += [
        "* The paper's own scale: a ResNet tuned as a whole, batches on a graphics card. "
        "`pcme train cub` and `pcme train coco` have its settings, and nobody has run them here."
    ]
    return "\n".join(lines) + "\n"
