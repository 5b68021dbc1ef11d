"""Security: whom the server answers, who may change something, and what a browser may do with an answer."""

import hmac
import ipaddress
from collections.abc import Collection, Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pcme.errors import ConfigError
from pcme.serve.problems import Problem

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer that has not set them itself."""
SAFE = ("GET", "HEAD")


def read_token(path: Path) -> str:
    """The token in a file: its text without spaces around it."""
    try:
        token = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as a token, {error}. Give a file of one line.") from error
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{path}: must hold one word of ASCII, the token. Write a long random one.")
    return token


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.9", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(header: str) -> str:
    """The name in a Host header, without its port.

    >>> [host_of(header) for header in ("LocalHost:8000", "[::1]:80", "127.0.0.1")]
    ['localhost', '::1', '127.0.0.1']
    """
    if header.startswith("["):
        name, closed, _ = header[1:].partition("]")
        return name.lower() if closed else ""
    return header.partition(":")[0].lower().rstrip(".")


class HostCheck:
    """Refuses requests for other names, and changes that another page asks for.

    A page of another site can make a name of its own mean this machine (DNS rebinding); an address it cannot. So a
    server of the network answers to every address, and to names it was given.
    """

    def __init__(self, app: ASGIApp, *, names: Collection[str], any_address: bool) -> None:
        self.app, self.any_address = app, any_address
        self.names = LOOPBACK | {name.lower() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "http" and (problem := self._problem(scope)):
            await problem(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _problem(self, scope: Scope) -> Problem | None:
        headers = Request(scope).headers
        hosts = headers.getlist("host")
        host = hosts[0] if len(hosts) == 1 else ""
        if not self._known(host_of(host)):
            return Problem(400, f"Host: unknown, got {host!r:.100}. Use an address, or name it with --name.")
        origin = headers.get("origin")
        if scope["method"] not in SAFE and origin is not None and origin.partition("://")[2].lower() != host.lower():
            return Problem(403, f"Origin: another page asked for this, got {origin!r:.100}. Use the server's own page.")
        return None

    def _known(self, name: str) -> bool:
        if name in self.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self.any_address or address.is_loopback


class SecureHeaders:
    """Adds `HEADERS` to answers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name, value) for name, value in self.headers if name not in present),
                ]
            await send(message)

        await self.app(scope, receive, secured if scope["type"] == "http" else send)


class Gate:
    """Lets those change something who have the token. It comes in a header, which no foreign page can send."""

    def __init__(self, token: str | None, *, read_only: bool) -> None:
        self._token = None if token is None else token.encode()
        self.read_only = read_only or token is None
        self._reason = "it was started with --read-only" if read_only else "it was started without --token-file"

    def require(self, request: Request) -> None:
        """Refuse a request that may not change anything."""
        if self.read_only or self._token is None:
            raise Problem(403, f"read-only: this server changes nothing, {self._reason}.")
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(given.strip().encode("latin-1"), self._token)
        if scheme.lower() != "bearer" or not known:
            wanted = {"WWW-Authenticate": 'Bearer realm="pcme"'}
            raise Problem(401, "Authorization: must be Bearer and the token of the server.", headers=wanted)
