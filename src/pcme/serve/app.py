"""The application: routes over a service, behind the checks that every request passes."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.types import ASGIApp

from pcme.model.frozen import cache_folder
from pcme.serve.access import Access, Log, no_log
from pcme.serve.answers import Json, ProblemAnswer, SearchAnswer, with_schemas
from pcme.serve.limits import BodyLimit
from pcme.serve.page import add_page
from pcme.serve.picture_routes import add_pictures
from pcme.serve.pictures import Pictures
from pcme.serve.problems import handlers
from pcme.serve.routes import add_embed, add_items, add_search, add_state
from pcme.serve.schemas import AddRequest, EmbedRequest, SearchRequest
from pcme.serve.security import Gate, HostCheck, SecureHeaders
from pcme.serve.service import Service

ABOUT = (
    "Images and captions that match a text or a picture, each with its probability. "
    "Errors are application/problem+json. Changes need the header `Authorization: Bearer TOKEN`."
)
DESCRIBED = (AddRequest, EmbedRequest, SearchRequest, ProblemAnswer, SearchAnswer)
"""Models that FastAPI does not know, or whose examples it would cut short."""


@dataclass(frozen=True)
class Setup:
    """What the application shows, and to whom."""

    token: str | None = field(default=None, repr=False)
    """Who has it may change the index; None: nobody."""
    read_only: bool = False
    images: Path | None = None
    """The folder below which pictures are shown; None: none are."""
    names: Collection[str] = ()
    """Names of this server besides those of loopback."""
    any_address: bool = False
    """Whether it answers to addresses other than those of loopback."""
    log: Log = no_log


def create_app(service: Service, setup: Setup | None = None) -> ASGIApp:
    """The application; it closes the service at its end."""
    setup = setup or Setup()

    @asynccontextmanager
    async def closing(app: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    api = FastAPI(
        title="pcme",
        version="1",
        description=ABOUT,
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=closing,
        exception_handlers=handlers(),
    )
    pictures = None if setup.images is None else Pictures(setup.images, cache_folder())
    add_search(api, service)
    add_embed(api, service)
    add_items(api, service, Gate(setup.token, read_only=setup.read_only), images=pictures is not None)
    add_pictures(api, service, pictures)
    add_state(api, service)
    add_page(api)
    _complete(api)
    app: ASGIApp = BodyLimit(api, limits=service.limits)
    app = SecureHeaders(HostCheck(app, names=setup.names, any_address=setup.any_address))
    return Access(app, metrics=service.metrics, log=setup.log)


def _complete(api: FastAPI) -> None:
    """Add to the OpenAPI document what FastAPI does not know: bodies that are read by hand, and the token."""
    described = api.openapi

    def openapi() -> Json:
        document: dict[str, Any] = with_schemas(described(), *DESCRIBED)
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        return document

    api.openapi = openapi  # type: ignore[method-assign]
