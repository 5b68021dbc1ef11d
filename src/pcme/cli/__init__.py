"""The command line: each verb is a thin call into the public API.

Results go to stdout, everything else to stderr. Exit status 0: done; 2: something you can fix, and
the message says how; 1: our fault. Nothing heavy is imported up here, so that ``pcme --help`` is
quick: a verb imports what it needs when it runs.
"""

from __future__ import annotations

from typing import Annotated, Any

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
    listing,
    report,
    reproduce,
    search,
    train,
)
from pcme.cli.output import Json, print_json
from pcme.core import plugins
from pcme.errors import PcmeError

__all__ = ["app", "main"]


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
app.add_typer(listing.app, name="list")
app.add_typer(data.app, name="data", help="List, check and look at datasets.")
app.add_typer(index.app, name="index", help="Make, fill, check and tune a search index.")
train.register(app)
evaluate.register(app)
analyze.register(app)
compare.register(app)
calibrate.register(app)
report.register(app)
reproduce.register(app)
embed.register(app)
search.register(app)
demo.register(app)
imports.register(app)


@app.callback()
def pcme(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error. Goes before the verb.")
    ] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE_OR_FILE", help="Load a plugin. Goes before the verb; may be repeated."),
    ] = None,
) -> None:
    """Probabilistic embeddings for image-text retrieval."""
    plugins.enable(plugin or [])


@app.command(epilog="[bold]Example:[/bold] pcme version --json")
def version(*, as_json: Json = False) -> None:
    """Print the version of pcme; with --json also of Python and of the libraries that matter."""
    if not as_json:
        typer.echo(f"pcme {__version__}")
        return
    from pcme.core.versions import versions

    print_json(versions() | {"pcme": __version__})


def main() -> None:
    """Run the command line; the entry point of the ``pcme`` script."""
    app(prog_name="pcme")
