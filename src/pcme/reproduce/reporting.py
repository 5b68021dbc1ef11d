"""Reporting: one document of all results that are kept, and of what was not reproduced."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pcme import atomic
from pcme.errors import ConfigError
from pcme.reproduce.base import registry
from pcme.reproduce.results import Result, read, write
from pcme.reproduce.tables import document, heading, spent
from pcme.reproduce.worlds import WORLDS

__all__ = ["report"]

HEAD = """\
# Results beside the paper's

Written by `pcme reproduce report`, from the records in {folder}/; nothing here is typed by hand.
Every row says how it was trained in its record (`changes`, for `pcme train RECIPE --set ...`), and
the digests of its runs.

**Read the differences, not the sizes.** Another dataset, backbone, dimension and length of training
than the paper's give other sizes; what can be compared is which row is above which. Where it says
*one seed*, a difference of a point or two says nothing. The table of what the paper finds tells
where this agrees, and where it does not.
"""


def report(out: Path, *, source: Path | None = None) -> list[Result]:
    """Write the document of the results kept beside it, in results/; those of `source` come along.

    A result is kept as its record and its pictures.
    """
    folder = out.parent / "results"
    folder.mkdir(parents=True, exist_ok=True)
    for path in _records(source) if source is not None else ():
        result = read(path)
        write(result, folder / path.name)
    results = sorted((read(path) for path in _records(folder)), key=_order)
    if not results:
        raise ConfigError(
            f"there are no results in {folder} - make some with `pcme reproduce`, then "
            "`pcme reproduce report --results runs/reproduce/results`"
        )
    for result in results:
        _draw(result, folder)
    atomic.write_text(out, _text(results, folder.name))
    return results


def _records(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def _draw(result: Result, folder: Path) -> None:
    """Pictures as SVG alone: the document shows nothing else."""
    from pcme.reproduce import drawing

    for path in drawing.save(result, folder / result.name):
        if path.suffix == ".png":
            path.unlink()


def _order(result: Result) -> tuple[int, int, str]:
    return list(WORLDS).index(result.world), int(result.quick), result.experiment


def _text(results: Sequence[Result], folder: str) -> str:
    sections = [document(result, level=2, picture=f"{folder}/{result.name}") for result in results]
    return "\n".join([HEAD.format(folder=folder), _contents(results), *sections, _missing(results)])


def _contents(results: Sequence[Result]) -> str:
    lines = [
        f"* [{result.experiment}](#{_anchor(result)}) ({result.where}): {_agreement(result)}"
        for result in results
    ]
    return "\n".join([*lines, "", f"All of it: {spent(results)}."]) + "\n"


def _anchor(result: Result) -> str:
    """What a section is called in a link, as GitHub makes it of its heading."""
    kept = [c for c in heading(result).lower() if c.isalnum() or c in " -_"]
    return "".join(kept).replace(" ", "-")


def _agreement(result: Result) -> str:
    """How many of the paper's findings hold."""
    verdicts = [found.verdict for table in result.tables for found in table.differences]
    if not verdicts:
        return f"on {result.world}"
    held = sum(verdict.startswith("holds") for verdict in verdicts)
    return f"on {result.world}, {held} of {len(verdicts)} of what the paper finds"


def _missing(results: Iterable[Result]) -> str:
    """What no record is of, and what would make it."""
    there = {(result.world, result.experiment, result.quick) for result in results}
    lines = ["## Not reproduced here", ""]
    for world in WORLDS.values():
        names = [name for name in registry.names() if world.name in registry.get(name).worlds]
        left = [name for name in names if (world.name, name, False) not in there]
        if left:
            needs = f" Needs {world.needs}." if world.needs else ""
            some = ", ".join(left)
            lines += [f"* In full on {world.name}: {some}.{needs} `{world.command('all')}`"]
    lines += [
        "* The paper's own scale: a ResNet tuned as a whole, batches on a graphics card. "
        "`pcme train cub` and `pcme train coco` have its settings, and nobody has run them here."
    ]
    return "\n".join(lines) + "\n"
