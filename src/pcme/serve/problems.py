"""Problems: every error of the API as application/problem+json (RFC 9457).

The text of an error is that of the command line. A request that the client can correct is 4xx. An index that cannot be
read or written now is 503. 500 is a defect of this package.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from pcme.errors import ConfigError, DataError, FormatError, PcmeError, ShapeError
from pcme.index.store import LockedError

MEDIA_TYPE = "application/problem+json"
STATUS: Mapping[type[PcmeError], int] = {
    ConfigError: 400,
    DataError: 422,
    ShapeError: 422,
    LockedError: 503,
    FormatError: 503,
    PcmeError: 422,
}
"""{error of the package: status}; the nearest class counts."""
NAMED = 20
"""Faults of a request that are named."""
SAID = 4
"""Those that stand in the sentence, too."""

logger = logging.getLogger("pcme.serve")


class Problem(HTTPException):
    """An error that is an answer; `further` are members of its JSON besides type, title, status and detail."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        further: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.further = further or {}

    @classmethod
    def of(cls, error: PcmeError) -> "Problem":
        """The answer to an error of the package."""
        status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
        return cls(status, str(error), headers={"Retry-After": "5"} if status == 503 else None)

    @classmethod
    def of_request(cls, errors: Sequence[Mapping[str, Any]]) -> "Problem":
        """The answer to a request of the wrong shape; `errors` as pydantic lists them; no input is repeated."""
        faults = [
            {"field": ".".join(map(str, error["loc"])) or "body", "message": str(error["msg"])}
            for error in errors[:NAMED]
        ]
        said = "; ".join(f"{fault['field']}: {fault['message']}" for fault in faults[:SAID])
        unreadable = any(error["type"] == "json_invalid" for error in errors)
        return cls(400 if unreadable else 422, f"{said}. See /openapi.json.", further={"errors": faults})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as an application would."""
        await self.response(request_id(scope))(scope, receive, send)

    def response(self, request: str | None) -> Response:
        """The answer."""
        record = {
            "type": "about:blank",
            "title": HTTPStatus(self.status_code).phrase,
            "status": self.status_code,
            "detail": self.detail,
            **({"request_id": request} if request else {}),
            **self.further,
        }
        # ASCII: texts of a request may hold halves of characters, which no encoding takes
        return Response(json.dumps(record), self.status_code, dict(self.headers or {}), MEDIA_TYPE)


def request_id(scope: Scope) -> str | None:
    """The id that `access` gave a request."""
    found: str | None = scope.get("pcme.request_id")
    return found


def handlers() -> dict[Any, Callable[[Request, Any], Any]]:
    """{error: what answers it}, for the application."""

    async def known(request: Request, error: HTTPException) -> Response:
        problem = error
        if not isinstance(problem, Problem):
            problem = Problem(error.status_code, str(error.detail), headers=error.headers)
        return problem.response(request_id(request.scope))

    async def ours(request: Request, error: PcmeError) -> Response:
        return await known(request, Problem.of(error))

    async def invalid(request: Request, error: ValidationError | RequestValidationError) -> Response:
        return await known(request, Problem.of_request(error.errors()))

    async def defect(request: Request, error: Exception) -> Response:
        name = request_id(request.scope)
        logger.error("request %s failed: %s", name, type(error).__name__)  # uvicorn logs the rest
        detail = "the server failed; its log says why, beside the id of the request."
        return Problem(500, detail).response(name)

    return {
        HTTPException: known,
        PcmeError: ours,
        RequestValidationError: invalid,
        ValidationError: invalid,
        Exception: defect,
    }
