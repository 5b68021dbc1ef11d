"""pcme list: everything that can be chosen by name, with a summary and its origin."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
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


def _rows(module: str, registry: str = "registry", /, **columns: Callable[[Registry[Any], str], object]) -> list[Row]:
    """One row per name in a module's registry: the name, further columns, the origin and the summary."""
    names = getattr(import_module(module), registry)
    return [
        {
            "name": name,
            **{column: value(names, name) for column, value in columns.items()},
            "origin": names.origin(name),
            "summary": names.summary(name),
        }
        for name in names.names()
    ]


def _aliases(registry: Registry[Any], name: str) -> list[str]:
    return [alias for alias, target in registry.aliases().items() if target == name]


def _backbones() -> list[Row]:
    images = _rows("pcme.nn.backbone", "image_backbones", embeds=lambda *_: "images")
    return images + _rows("pcme.nn.backbone", "caption_backbones", embeds=lambda *_: "captions")


def _analyses() -> list[Row]:
    return _rows("pcme.analysis", reading=lambda registry, name: registry.get(name).reading)


def _recipes() -> list[Row]:
    from pcme import recipes

    return [
        {
            "name": name,
            "data": recipe.data.kind,
            "image": recipe.image.kind,
            "method": recipe.method.kind,
            "origin": "built-in" if name in recipes.BUILT_IN else "plugin",
        }
        for name, recipe in zip(recipes.names(), map(recipes.get, recipes.names()), strict=True)
    ]


def _experiments() -> list[Row]:
    return _rows(
        "pcme.reproduce",
        aliases=_aliases,
        data=lambda registry, name: ", ".join(registry.get(name).setups),
        paper=lambda registry, name: registry.get(name).where,
    )


KINDS: dict[str, tuple[str, Callable[[], list[Row]]]] = {
    "scores": ("List the scores that compare two embeddings.", lambda: _rows("pcme.scores", aliases=_aliases)),
    "methods": ("List the methods that a recipe can train (`method.kind`).", lambda: _rows("pcme.methods")),
    "backbones": ("List the backbones of images and of captions (`image.kind`, `caption.kind`).", _backbones),
    "datasets": ("List the datasets and layouts of data (`data.kind`).", lambda: _rows("pcme.data")),
    "analyses": ("List the analyses of `pcme analyze`.", _analyses),
    "recipes": ("List the recipes of `pcme train`: name, data, image backbone, method.", _recipes),
    "experiments": (
        "List the experiments of `pcme reproduce`: name, the paper's numbers as aliases, data, place.",
        _experiments,
    ),
}
"""{kind: (its help, its rows)}."""


@app.callback()
def list_all(context: typer.Context, *, as_json: Json = False) -> None:
    """List what can be chosen by name: one kind, or without its name all kinds."""
    if context.invoked_subcommand is not None:
        return
    if as_json:
        print_json({kind: rows() for kind, (_, rows) in KINDS.items()})
        return
    for kind, (_, rows) in KINDS.items():
        _print(rows(), kind)
        typer.echo()


def _add_command(kind: str, text: str, rows: Callable[[], list[Row]]) -> None:
    @app.command(kind, help=text, epilog=f"[bold]Example:[/bold] pcme list {kind} --json")
    def command(*, as_json: Json = False) -> None:
        if as_json:
            print_json(rows())
        else:
            _print(rows(), "name")


def _print(rows: list[Row], title: str) -> None:
    """Print rows as a table; how to read an analysis's figure is left to --json."""
    columns = [column for column in rows[0] if column != "reading"]
    cells = [[row[column] for column in columns] for row in rows]
    lines = [[", ".join(cell) if isinstance(cell, list) else str(cell) for cell in line] for line in cells]
    print_table((title, *columns[1:]), lines)


for _kind, _of in KINDS.items():
    _add_command(_kind, *_of)
