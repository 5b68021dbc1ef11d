"""Drawings: what analyses found in runs, and sheets, as parts of a result and as figures.

A figure with images of the split is drawn where they are at hand: by the job that embeds them, or here for a sheet. All
others follow from the record alone.
"""

import math
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter

from pcme import analysis, plots
from pcme.analysis.storage import plain
from pcme.core import files
from pcme.reproduce.analyses import stem, stored
from pcme.reproduce.base import Row, Table, registry
from pcme.reproduce.outcome import Drawing, Result, Stated
from pcme.reproduce.planning import Request
from pcme.reproduce.sheets import Sheet, Source


def with_drawings(request: Request, result: Result) -> Result:
    """The result of an experiment whose runs are all done, with its drawings."""
    experiment = registry.create(result.experiment)
    if not isinstance(experiment, Sheet):
        return replace(result, drawings=tuple(_of_runs(request.of(result.experiment), result.experiment)))
    setup = replace(request.setup, options="")  # nothing is trained, so no weights are needed
    command = setup.command(result.experiment, quick=request.quick, changes=request.changes)
    drawn = _of_sheet(experiment, experiment.compute(source_of(request)))
    return replace(result, drawings=(drawn,), protocol=setup.data, command=command)


def source_of(request: Request) -> Source:
    """What sheets are drawn of."""
    setup = request.setup
    recipe = setup.recipe([*(setup.quick if request.quick else ()), *request.changes])
    return Source(recipe, setup.splits, request.data_root)


def figure(result: Result, drawing: Drawing, source: Source | None = None) -> plots.Figure:
    """Draw it from its record; a sheet's images are those of the source, where one is given."""
    if drawing.analysis:
        chosen = analysis.create(drawing.analysis)
        return chosen.draw(TypeAdapter(chosen.result).validate_python(drawing.content))
    sheet = cast("Sheet[Any]", registry.create(result.experiment))
    found = TypeAdapter(sheet.result).validate_python(drawing.content)
    return sheet.draw(found, source.unseen.images if source is not None and drawing.shows_images else None)


def save(result: Result, target: Path, request: Request | None = None) -> None:
    """Write the figures of a result's drawings as `target`-N.svg and .png.

    Without a request, as for a report, the figures are SVG alone, and those that show images are left out.
    """
    if request is None:
        for index, drawing in enumerate(result.drawings):
            if not drawing.shows_images:
                files.write_text(_numbered(result, target, index, ".svg"), plots.svg(figure(result, drawing)))
        return
    made, source = _with_images(request.of(result.experiment), result.experiment), source_of(request)
    for index, drawing in enumerate(result.drawings):
        if drawing.title in made:
            path = made[drawing.title]
            for suffix in (".svg", ".png"):
                with files.replacing(_numbered(result, target, index, suffix)) as draft:
                    shutil.copyfile(path.with_name(path.name + suffix), draft)
        else:
            plots.save(figure(result, drawing, source), _numbered(result, target, index))


def _numbered(result: Result, target: Path, drawing: int, suffix: str = "") -> Path:
    return target.with_name(f"{target.name}-{result.picture(drawing)}{suffix}")


def _of_runs(request: Request, name: str) -> Iterator[Drawing]:
    """The drawings of the runs of the first seed, and fold, as the experiment puts them together."""
    for table in request.tables(name):
        if table.drawn is not None:
            kind = analysis.registry.get(table.drawn.name)
            found = {row.label: stored(_stem(request, table, row)) for row in table.rows}
            for title, result in registry.create(name).drawings(found).items():
                yield Drawing(title, table.drawn.name, plain(result), kind.reading, kind.shows_images)


def _with_images(request: Request, name: str) -> dict[str, Path]:
    """{title: the figure in the run's folder} of the drawings that show images."""
    return {
        row.label: _stem(request, table, row)
        for table in request.tables(name)
        if table.drawn is not None and analysis.registry.get(table.drawn.name).shows_images
        for row in table.rows
    }


def _stem(request: Request, table: Table, row: Row) -> Path:
    job = request.jobs_of(table, row, 0)[0]
    (measurement,) = (each for each in job.measurements if each.asked is not None)
    return stem(job.folder, measurement)


def _of_sheet(sheet: Sheet[Any], found: analysis.Result) -> Drawing:
    numbers = tuple(
        Stated(number.name, None if math.isnan(number.value) else number.value, number.meaning)
        for number in found.numbers()
    )
    return Drawing(sheet.title, "", plain(found), sheet.reading, sheet.shows_images, numbers)
