"""Routes of pictures: /v1/thumbnails and /v1/images, by the ids of the index only."""

import asyncio
from collections.abc import Callable

from fastapi import FastAPI, Request
from starlette.responses import Response, StreamingResponse

from pcme.index import Item
from pcme.serve.answers import media
from pcme.serve.pictures import MIME, PLACEHOLDER, Picture, Pictures
from pcme.serve.problems import Problem
from pcme.serve.schemas import Id
from pcme.serve.service import Service

SANDBOX = {"Content-Security-Policy": "default-src 'none'; sandbox", "Cache-Control": "private, no-cache"}
"""A picture that is opened by itself runs nothing; a browser asks each time whether it has changed."""
AT_ONCE = 4
"""Pictures that are opened or made at once."""


def add_pictures(app: FastAPI, service: Service, pictures: Pictures | None) -> None:
    """/v1/thumbnails and /v1/images; without a folder (--images) both are refused."""
    opening = asyncio.Semaphore(AT_ONCE)

    async def sent(request: Request, name: str, choose: Callable[[Pictures, Item], Picture | None]) -> Response:
        if pictures is None:
            raise Problem(404, "pictures: none are served. Start the server with --images and their folder.")
        item = await service.item(name)
        async with opening:
            picture = await asyncio.to_thread(choose, pictures, item)
        if picture is None:
            return Response(PLACEHOLDER, media_type="image/svg+xml", headers={**SANDBOX, "X-Placeholder": "true"})
        tag = f'"{picture.tag}"'
        if request.headers.get("if-none-match") == tag:
            picture.close()
            return Response(status_code=304, headers={**SANDBOX, "ETag": tag})
        headers = {**SANDBOX, "ETag": tag, "Content-Length": str(picture.size)}
        if isinstance(picture.content, bytes):
            return Response(picture.content, media_type=picture.media_type, headers=headers)
        return StreamingResponse(picture.pieces(), media_type=picture.media_type, headers=headers)

    made, shown = media("image/jpeg", "image/svg+xml"), media(*MIME.values(), "image/svg+xml")

    @app.get("/v1/thumbnails/{id:path}", responses=made, response_class=Response, summary="A small copy of an image")
    async def thumbnail(request: Request, id: Id) -> Response:  # noqa: A002 - the name in the address
        return await sent(request, id, Pictures.thumbnail)

    @app.get("/v1/images/{id:path}", responses=shown, response_class=Response, summary="An image as it is")
    async def image(request: Request, id: Id) -> Response:  # noqa: A002
        return await sent(request, id, Pictures.original)
