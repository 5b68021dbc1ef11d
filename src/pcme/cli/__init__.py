"""The command line: each verb is a thin call into the public API.

Results go to stdout, everything else to stderr. Exit status 0: done; 2: something you can fix, and
the message says how; 1: our fault. Nothing heavy is imported up here, so that ``pcme --help`` is
quick: a verb imports what it needs when it runs.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from pcme import __version__
from pcme.cli import (
    analyze,
    calibrate,
    compare,
    data,
    demo,
    embed,
    evaluate,
    imports,
    index,
    report,
    reproduce,
    search,
    train,
)
from pcme.cli.output import Json, print_json, print_table
from pcme.core.registry import Registry
from pcme.errors import PcmeError

__all__ = ["app", "main"]

T = TypeVar("T")


class _Verbs(TyperGroup):
    """The verbs; a PcmeError from any of them becomes a message and exit status 2."""

    # Any: typer's own click has no public name for the class of `ctx`.
    def invoke(self, ctx: Any) -> object:  # noqa: ANN401
        try:
            return super().invoke(ctx)
        except PcmeError as error:
            if ctx.params["debug"]:
                raise
            typer.echo(f"pcme: {error}", err=True)
            raise typer.Exit(2) from error


app = typer.Typer(
    name="pcme",
    cls=_Verbs,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="[bold]Example:[/bold] pcme list scores",
)
list_app = typer.Typer(no_args_is_help=True, epilog="[bold]Example:[/bold] pcme list scores --json")
app.add_typer(list_app, name="list", help="List what can be chosen by name.")
app.add_typer(data.app, name="data", help="List, check and look at datasets.")
app.add_typer(index.app, name="index", help="Make, fill, check and tune a search index.")
train.register(app)
evaluate.register(app)
analyze.register(app, list_app)
compare.register(app)
calibrate.register(app)
report.register(app)
reproduce.register(app, list_app)
embed.register(app)
search.register(app)
demo.register(app)
imports.register(app)


@app.callback()
def pcme(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error. Goes before the verb.")
    ] = False,
) -> None:
    """Probabilistic embeddings for image-text retrieval."""


@list_app.command("scores", epilog="[bold]Example:[/bold] pcme list scores --json")
def list_scores(*, as_json: Json = False) -> None:
    """List the scores that compare two embeddings: name, aliases, what each computes."""
    from pcme import scores

    registry = scores.registry
    rows = [(name, _aliases_of(registry, name), registry.summary(name)) for name in scores.names()]
    columns = ("name", "aliases", "summary")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, [(name, ", ".join(others), text) for name, others, text in rows])


@list_app.command("recipes", epilog="[bold]Example:[/bold] pcme list recipes --json")
def list_recipes(*, as_json: Json = False) -> None:
    """List the recipes that `pcme train` knows: name, data, backbone, method."""
    from pcme import recipes

    found = [recipes.get(name) for name in recipes.names()]
    rows = [(r.name, r.data.kind, r.image.kind, r.method.kind) for r in found]
    columns = ("name", "data", "image", "method")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)


@app.command(epilog="[bold]Example:[/bold] pcme version --json")
def version(*, as_json: Json = False) -> None:
    """Print the version of pcme; with --json also of Python and of the libraries that matter."""
    if not as_json:
        typer.echo(f"pcme {__version__}")
        return
    from importlib.metadata import version as installed
    from platform import python_version

    libraries = {name: installed(name) for name in ("torch", "numpy", "numba")}
    print_json({"pcme": __version__, "python": python_version(), **libraries})


def main() -> None:
    """Run the command line; the entry point of the ``pcme`` script."""
    app(prog_name="pcme")


def _aliases_of(registry: Registry[T], name: str) -> list[str]:
    return [alias for alias, target in registry.aliases().items() if target == name]
