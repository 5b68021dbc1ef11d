"""pcme list: everything that can be chosen by name, with a summary and its origin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from pcme.cli.output import Json, print_json, print_table
from pcme.core.registry import Registry

Row = dict[str, Any]

app = typer.Typer(
    invoke_without_command=True,
    help="List what can be chosen by name.",
    epilog="[bold]Examples:[/bold] pcme list · pcme list scores --json",
)


def _rows(registry: Registry[Any], **columns: Callable[[str], object]) -> list[Row]:
    """One row per name: the name, further columns, the origin and the summary."""
    return [
        {
            "name": name,
            **{column: value(name) for column, value in columns.items()},
            "origin": registry.origin(name),
            "summary": registry.summary(name),
        }
        for name in registry.names()
    ]


def _scores() -> list[Row]:
    """List the scores that compare two embeddings."""
    from pcme.scores import registry

    names = registry.aliases().items()
    return _rows(registry, aliases=lambda name: [alias for alias, of in names if of == name])


def _methods() -> list[Row]:
    """List the methods that a recipe can train (`method.kind`)."""
    from pcme.methods import registry

    return _rows(registry)


def _backbones() -> list[Row]:
    """List the backbones of images and of captions (`image.kind`, `caption.kind`)."""
    from pcme.nn.backbone import caption_backbones, image_backbones

    images = _rows(image_backbones, embeds=lambda name: "images")
    return images + _rows(caption_backbones, embeds=lambda name: "captions")


def _datasets() -> list[Row]:
    """List the datasets and layouts of data (`data.kind`)."""
    from pcme.data import registry

    return _rows(registry)


def _analyses() -> list[Row]:
    """List the analyses of `pcme analyze`."""
    from pcme.analysis import registry

    return _rows(registry, reading=lambda name: registry.get(name).reading)


def _recipes() -> list[Row]:
    """List the recipes of `pcme train`: name, data, image backbone, method."""
    from pcme import recipes

    return [
        {
            "name": name,
            "data": recipe.data.kind,
            "image": recipe.image.kind,
            "method": recipe.method.kind,
            "origin": "built-in" if name in recipes.BUILT_IN else "plugin",
        }
        for name in recipes.names()
        for recipe in [recipes.get(name)]
    ]


def _experiments() -> list[Row]:
    """List the experiments of `pcme reproduce`: name, data, place in the paper."""
    from pcme.reproduce import registry

    return _rows(
        registry, data=lambda name: ", ".join(registry.get(name).setups), paper=lambda name: registry.get(name).where
    )


KINDS: dict[str, Callable[[], list[Row]]] = {
    "scores": _scores,
    "methods": _methods,
    "backbones": _backbones,
    "datasets": _datasets,
    "analyses": _analyses,
    "recipes": _recipes,
    "experiments": _experiments,
}


@app.callback()
def list_all(context: typer.Context, *, as_json: Json = False) -> None:
    """List what can be chosen by name: one kind, or without its name all kinds."""
    if context.invoked_subcommand is not None:
        return
    if as_json:
        print_json({kind: rows() for kind, rows in KINDS.items()})
        return
    for kind, rows in KINDS.items():
        _print(rows(), kind)
        typer.echo()


def _command(kind: str, rows: Callable[[], list[Row]]) -> None:
    def command(*, as_json: Json = False) -> None:
        if as_json:
            print_json(rows())
        else:
            _print(rows(), "name")

    epilog = f"[bold]Example:[/bold] pcme list {kind} --json"
    app.command(kind, help=rows.__doc__, epilog=epilog)(command)


def _print(rows: list[Row], title: str) -> None:
    """Print rows as a table; how to read an analysis's figure is left to --json."""
    columns = [column for column in rows[0] if column != "reading"]
    cells = [[row[column] for column in columns] for row in rows]
    lines = [[", ".join(cell) if isinstance(cell, list) else str(cell) for cell in line] for line in cells]
    print_table((title, *columns[1:]), lines)


for _kind, _of in KINDS.items():
    _command(_kind, _of)
