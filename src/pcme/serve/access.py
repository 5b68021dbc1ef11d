"""Access: an id, a line in the log and a count for every request."""

import json
import re
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pcme.serve.metrics import Metrics

HEADER = b"x-request-id"
KNOWN_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
"""An id that a client gives is taken over if it is plain."""

Record = dict[str, str | int | float | None]
Log = Callable[[Record], None]
"""What is done with the record of a request."""


def to_stderr(line: str) -> None:
    """Write a line at once."""
    print(line, file=sys.stderr, flush=True)


def line_by_line(write: Callable[[str], object] = to_stderr, *, as_json: bool = False) -> Log:
    """A log of lines, as JSON or for people."""

    def log(record: Record) -> None:
        plain = "{time} {client} {method} {path} {status} {milliseconds} ms {request_id}".format_map(record)
        write(json.dumps(record) if as_json else plain)

    return log


def no_log(record: Record) -> None:
    """Write nothing."""


class Access:
    """Gives each request an id, and notes what became of it. The address is logged without its query."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics, log: Log) -> None:
        self.app, self.metrics, self.log = app, metrics, log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note the answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        name = next((value for key, value in scope["headers"] if key == HEADER), b"")
        name = name if KNOWN_ID.fullmatch(name) else uuid.uuid4().hex.encode()
        scope["pcme.request_id"] = name.decode()
        status, sent, begin = 500, 0, time.perf_counter()

        async def noted(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (HEADER, name)]
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, noted)
        finally:
            seconds = time.perf_counter() - begin
            route = getattr(scope.get("route"), "path", "unmatched")
            self.metrics.count(scope["method"], route, status, seconds)
            self.log(_record(scope, status, sent, seconds))


def _record(scope: Scope, status: int, sent: int, seconds: float) -> Record:
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "request_id": scope["pcme.request_id"],
        "client": scope["client"][0] if scope.get("client") else None,
        "method": scope["method"],
        "path": scope.get("raw_path", b"").decode("ascii", "backslashreplace"),  # as sent: no line can be forged
        "status": status,
        "bytes": sent,
        "milliseconds": round(1000 * seconds, 1),
    }
