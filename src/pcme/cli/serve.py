"""pcme serve: an index as a page and an HTTP API."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pcme.cli.index import IndexPath, ModelPath
from pcme.errors import ConfigError


def serve(
    where: IndexPath,
    *,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    images: Annotated[
        Path | None, typer.Option(metavar="ROOT", help="Show pictures of items, those below this folder only.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with a secret word; who sends it may add and delete items.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Change nothing, whatever token is sent.")] = False,
    name: Annotated[
        list[str] | None, typer.Option(help="A further name of this server, as in a Host header. May be repeated.")
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Listen to other machines without a token: all of them may search.")
    ] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    json_log: Annotated[bool, typer.Option("--json-log", help="Log requests as JSON lines on stderr.")] = False,
    model: ModelPath = None,
) -> None:
    """Serve an index as a page and an HTTP API, on this machine alone unless --host says otherwise.

    Without --token-file nothing can be changed.
    """
    try:
        from pcme.serve.server import Address, serve
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("pcme"):
            raise
        raise ConfigError(
            f"{error.name}: not installed, a server needs it. Run: pip install 'pcme[index,serve]'."
        ) from error

    serve(
        where,
        model,
        Address(host, port, tuple(name or ()), public),
        token_file=token_file,
        read_only=read_only,
        images=images,
        json_log=json_log,
        say=lambda text: typer.echo(text, err=True),
        ready=_show if open_page else lambda url: None,
    )


def _show(url: str) -> None:
    import webbrowser

    webbrowser.open(url)
