"""Reporting: one document of all results in a folder, and of what was not reproduced."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from pcme.core import files
from pcme.errors import ConfigError
from pcme.reproduce import drawings, pictures
from pcme.reproduce.outcome import FAILS, HOLDS, LEVEL, Difference, Result, read, write
from pcme.reproduce.planning import select
from pcme.reproduce.setups import SETUPS
from pcme.reproduce.tables import document, heading, piped, spent

HEAD = """\
# Results beside the paper's

Written by `{command}`, from the records in {folder}/;
nothing here is typed by hand. The record of a row says how it was trained (`changes`, for
`pcme train RECIPE --set ...`), with the digests of its runs.{note}

**Read the differences, not the sizes.** Another dataset, backbone, dimension and length of training
than the paper's give other sizes. Only the order of the rows can be compared. With *one seed*, a
difference of a point or two says nothing. The tables "what the paper finds" say where this agrees
and where it does not. With several seeds a finding holds, or does not, where the 95 % interval of the mean difference
(Student's t over the seeds) leaves out 0; otherwise it is level.
"""
TABLES_ONLY = """\
 The figures are left out, because the records have their values:
`pcme reproduce report` draws them."""
SAID = {HOLDS: "hold", LEVEL: "level", FAILS: "do not hold"}
"""{verdict: what several of them do}."""


def report(out: Path, *, source: Path | None = None, figures: bool = True) -> list[Result]:
    """Write the document of the results in the folder beside it that has its name.

    The records of `source` are copied there first. Figures are drawn as SVG.
    """
    folder = out.with_suffix("")
    if source is not None and source != folder:
        records = read_results(source)  # all of them, before one is written
        folder.mkdir(parents=True, exist_ok=True)
        for result in records:
            write(result, folder / f"{result.name}.json")
    results = read_results(folder)
    for result in results if figures else ():
        pictures.save(result, folder / result.name, png=False)
        drawings.save(result, folder / result.name)
    files.write_text(out, text(results, folder.name, figures=figures))
    return results


def read_results(folder: Path) -> list[Result]:
    """The results in a folder, in the order of the document."""
    results = sorted((read(path) for path in sorted(folder.glob("*.json"))), key=_order)
    if not results:
        raise ConfigError(
            f"{folder}: {'no results' if folder.exists() else 'not found'}. Make some with `pcme reproduce`, then "
            "run `pcme reproduce report --results runs/reproduce/results`."
        )
    return results


def _order(result: Result) -> tuple[int, list[str], bool, str]:
    """By setup, the full before the others, the paper's main tables first."""
    experiment = result.experiment
    return list(SETUPS).index(result.world), result.marks, not experiment.startswith("table"), experiment


def text(results: Sequence[Result], folder: str, *, figures: bool = True) -> str:
    """The document of some results, whose figures lie in `folder`."""
    command = "pcme reproduce report" if figures else "pcme reproduce report --tables-only"
    note = "" if figures else TABLES_ONLY
    parts = [HEAD.format(command=command, folder=folder, note=note), _contents(results)]
    for (world, *marks), group in groupby(results, key=lambda result: (result.world, *result.marks)):
        of_setup = list(group)
        name, protocol = ", ".join([world, *marks]), of_setup[0].protocol
        parts.append(f"## On {name}\n\nHow all of it differs from the paper: {protocol}\n")
        parts += [
            document(
                result, level=3, picture=f"{folder}/{result.name}" if figures else None, protocol=False, images=False
            )
            for result in of_setup
        ]
    return "\n".join([*parts, _missing(results)])


def _contents(results: Sequence[Result]) -> str:
    titles = ["", "in the paper", "seeds", "the paper's findings with the same sign here", "over the seeds"]
    lines = [titles, ["---"] * len(titles)]
    lines += [
        [f"[{heading(result)}](#{_anchor(result)})", result.where, _seeds(result), _held(result), _verdicts(result)]
        for result in results
    ]
    return f"{piped(lines)}\n\nAll of it: {spent(results)}.\n"


def _anchor(result: Result) -> str:
    """The anchor of a section, as GitHub derives it from the heading."""
    letters = [c for c in heading(result).lower() if c.isalnum() or c in " -_"]
    return "".join(letters).replace(" ", "-")


def _seeds(result: Result) -> str:
    return str(result.seeds) if result.tables else "–"


def _held(result: Result) -> str:
    """The number of differences with the paper's sign, however sure the seeds are of it; a dash without any."""
    means = [difference.mean for difference in _differences(result)]
    if not means:
        return "–"
    return f"{sum(mean > 0 for mean in means)} of {len(means)}"


def _verdicts(result: Result) -> str:
    """How many of them hold, are level and do not hold; a dash for one seed, which cannot tell."""
    counts = Counter(difference.verdict for difference in _differences(result) if difference.interval is not None)
    return ", ".join(f"{counts[verdict]} {said}" for verdict, said in SAID.items() if counts[verdict]) or "–"


def _differences(result: Result) -> list[Difference]:
    return [difference for table in result.tables for difference in table.differences]


def _missing(results: Iterable[Result]) -> str:
    """The experiments without a record, and the commands that make them."""
    full = {(result.world, result.experiment) for result in results if not result.marks}
    lines = ["## Not reproduced here", ""]
    for setup in SETUPS.values():
        missing = [name for name in select(["all"], setup) if (setup.name, name) not in full]
        if missing:
            needs = f" Needs {setup.needs.rstrip('.')}." if setup.needs else ""
            lines += [f"* In full on {setup.name}: {', '.join(missing)}.{needs} `{setup.command('all')}`"]
    lines += [
        "* The paper's own scale: a ResNet tuned as a whole, batches on a graphics card. "
        "`pcme train cub` and `pcme train coco` have its settings, and nobody has run them here."
    ]
    return "\n".join(lines) + "\n"
