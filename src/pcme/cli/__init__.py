"""The command line: each verb is a thin call into the public API.

Results go to stdout, everything else to stderr. Exit status 0: done; 2: something you can fix, and the message says
how; 1: our fault. A verb imports what it needs when it runs, so that ``pcme --help`` is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pcme import __version__
from pcme.cli import data, index, listing
from pcme.cli.analyze import analyze
from pcme.cli.calibrate import calibrate
from pcme.cli.compare import compare
from pcme.cli.demo import demo
from pcme.cli.device import on_device
from pcme.cli.doctor import doctor
from pcme.cli.embed import embed
from pcme.cli.evaluate import evaluate
from pcme.cli.imports import import_checkpoint
from pcme.cli.output import Json, print_json
from pcme.cli.report import report
from pcme.cli.reproduce import reproduce
from pcme.cli.search import search
from pcme.cli.serve import serve
from pcme.cli.train import show, train
from pcme.core import plugins
from pcme.errors import PcmeError

VERBS: dict[Callable[..., None], str] = {
    train: "pcme train aviary --out runs/aviary",
    show: "pcme show aviary-tiny --diff aviary",
    evaluate: "pcme evaluate runs/aviary · pcme evaluate runs/cub --split seen --scores all · "
    "pcme evaluate --embeddings images.npy captions.npy --data coco",
    analyze: "pcme analyze runs/aviary all · pcme analyze runs/cub bins --set bins=5",
    compare: "pcme compare runs/mu runs/aviary --metric recall@1",
    calibrate: "pcme calibrate runs/aviary aviary",
    report: "pcme report runs/aviary --out report.html",
    reproduce: "pcme reproduce table2 --quick · pcme reproduce all --data cub --data-root CUB",
    embed: "pcme embed runs/aviary photos/ --out photos.parquet",
    search: "pcme search birds 'a small red bird' --k 5 · "
    "pcme search birds photo.jpg --where \"year > 2015 AND place = 'Oslo'\" · "
    "pcme search birds 'a red bird' --and 'near water' --not 'a long tail'",
    serve: "pcme serve birds --images photos/ · pcme serve birds --token-file token --json-log",
    demo: "pcme demo --out runs/demo",
    import_checkpoint: "pcme import-checkpoint pcme_coco.pth --out models/coco",
    doctor: "pcme doctor --json",
}
"""{verb: its examples}, in the order of --help."""
COMPUTING = {train, evaluate, analyze, compare, calibrate, report, reproduce, embed, search, serve, demo}
"""The verbs with --device."""


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
for _verb, _examples in VERBS.items():
    _title = "Examples" if " · " in _examples else "Example"
    _epilog = f"[bold]{_title}:[/bold] {_examples}"
    app.command(epilog=_epilog)(on_device(_verb) if _verb in COMPUTING else _verb)


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
