"""The server: an application on a port, until it is told to end; requests under way are finished."""

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from pcme.errors import ConfigError
from pcme.index import SearchIndex
from pcme.serve.access import line_by_line
from pcme.serve.app import Setup, create_app
from pcme.serve.limits import Limits
from pcme.serve.security import is_loopback, read_token
from pcme.serve.service import Service

WILDCARDS = ("0.0.0.0", "::", "")
SHORT = 16
"""A token with fewer characters is doubtful."""
WAITING = 2048
"""Connections that wait to be taken."""


@dataclass(frozen=True)
class Address:
    """Where the server listens, and what it calls itself."""

    host: str = "127.0.0.1"
    port: int = 8000
    names: Sequence[str] = ()
    """Further names by which it may be called."""
    public: bool = False
    """Whether the network may reach it without a token."""

    def url(self, port: int) -> str:
        """Where a browser on this machine finds it."""
        host = "127.0.0.1" if self.host in WILDCARDS else self.host
        return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def serve(
    path: str,
    model: Path | None,
    address: Address,
    *,
    token_file: Path | None = None,
    read_only: bool = False,
    images: Path | None = None,
    json_log: bool = False,
    say: Callable[[str], object] = print,
    ready: Callable[[str], object] = lambda url: None,
) -> None:
    """Serve an index until the process is told to end; `ready` gets the address once connections are taken."""
    token = None if token_file is None else read_token(token_file)
    require_guarded(address, token)
    if token is not None and len(token) < SHORT:
        say(f"note: a token of {len(token)} characters can be guessed; write one of {SHORT} or more")
    setup = Setup(
        token=token,
        read_only=read_only,
        images=images,
        names=[*address.names, *([] if address.host in WILDCARDS else [address.host])],
        any_address=not is_loopback(address.host),
        log=line_by_line(as_json=json_log),
    )
    with listen(address.host, address.port) as listening:
        service = Service(SearchIndex.open(path, model))
        app = create_app(service, setup)
        url = address.url(listening.getsockname()[1])
        changes = "changes need the token" if token and not read_only else "read-only"
        say(f"{path}: {len(service.index):,} items at {url} ({changes}); Ctrl+C ends")
        ready(url)
        try:
            server_of(app, service.limits).run(sockets=[listening])
        except KeyboardInterrupt:
            say("ended")


def require_guarded(address: Address, token: str | None) -> None:
    """Refuse to open an index to the network by accident."""
    if not is_loopback(address.host) and token is None and not address.public:
        raise ConfigError(
            f"--host: {address.host or '(all)'} can be reached from other machines, and there is no token. Give "
            "--token-file, or --public if everybody who reaches the port may search."
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections; a ConfigError says why not."""
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, _, _, _, where = min(found, key=lambda each: each[0] != socket.AF_INET)  # "localhost" is both
        return socket.create_server(where[:2], family=family, backlog=WAITING)
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"--port: {port} on {host or '(all)'} cannot be used, {reason}. Give another one.") from error


def server_of(app: ASGIApp, limits: Limits) -> uvicorn.Server:
    """The server of an application, which waits for answers under way before it ends."""
    config = uvicorn.Config(
        app,
        lifespan="on",
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=round(limits.seconds) + 5,
    )
    return uvicorn.Server(config)
