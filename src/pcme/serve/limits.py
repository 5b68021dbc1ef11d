"""Limits: what one request may ask for, and the body that is counted while it is read."""

import asyncio
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pcme.serve.problems import Problem

MAX_K = 1_000
MAX_TEXT = 2_000
"""Characters of one text."""
MAX_WHERE = 2_000
"""Characters of a filter."""
MAX_PARTS = 16
"""Texts, images, ids and vectors of one query."""
MAX_DIM = 65_536
MAX_FIELDS = 64
"""Fields of a form that are not files."""
MAX_FIELD = 2**20
"""Bytes of one of them."""
MAX_TEXTS = 64
"""Texts, or images, that are embedded at once."""
MAX_ITEMS = 1_000
"""Captions or vectors that are added at once."""
MAX_IMAGES = 64
"""Images that are added at once."""
MAX_PIXELS = 50_000_000
"""Pixels of an image; more are refused before anything is decoded."""
CLOSE = {"Connection": "close"}
"""The header of an answer after which nothing more is read."""


@dataclass(frozen=True)
class Limits:
    """The limits of a server."""

    body: int = 32 * 2**20
    """Bytes of a request's body."""
    seconds: float = 30.0
    """How long a body may take to arrive, and then an answer."""
    waiting: int = 256
    """Searches that wait; a further one is refused."""
    batch: int = 64
    """Searches that are answered in one pass."""
    linger: float = 0.004
    """Seconds that a pass waits for more searches, while several come at once."""
    writes: int = 16
    """Writes that wait."""
    uploads: int = 64
    """Forms that are read at once; a further one is refused."""
    decoded: int = 8
    """Images of queries in memory; others wait in their forms."""


class BodyLimit:
    """Refuses a body that is too large or too slow, whatever its header says."""

    def __init__(self, app: ASGIApp, *, limits: Limits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its body under watch."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = _Body(receive, self.limits)
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if lengths and lengths[0].isdigit() and int(lengths[0]) > self.limits.body:
            await body.too_large()(scope, receive, send)
            return
        await self.app(scope, body, send)


class _Body:
    """The `receive` of a request; counts and times what arrives."""

    def __init__(self, receive: Receive, limits: Limits) -> None:
        self.receive, self.limits = receive, limits
        self.size, self.complete = 0, False
        self.end = asyncio.get_running_loop().time() + limits.seconds

    async def __call__(self) -> Message:
        if self.complete:  # what follows is the end of the connection
            return await self.receive()
        try:
            async with asyncio.timeout_at(self.end):
                message = await self.receive()
        except TimeoutError:
            detail = f"body: must arrive within {self.limits.seconds:g} s. Send it again, faster."
            raise Problem(408, detail, headers=CLOSE) from None
        self.complete = not message.get("more_body", False)
        self.size += len(message.get("body", b""))
        if self.size > self.limits.body:
            raise self.too_large()
        return message

    def too_large(self) -> Problem:
        """The refusal."""
        detail = f"body: must have at most {self.limits.body:,} bytes. Send fewer items, or smaller images."
        return Problem(413, detail, headers=CLOSE)
