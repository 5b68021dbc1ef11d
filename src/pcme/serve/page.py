"""The page: the files in the folder `page`, as they are; no build step, nothing from elsewhere."""

from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from fastapi import FastAPI
from starlette.responses import Response

from pcme.serve.problems import Problem

START = "index.html"
MIME: Mapping[str, str] = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class File(NamedTuple):
    """A file of the page."""

    content: bytes
    media_type: str


def page_files() -> dict[str, File]:
    """{name: file} of all files of the page, read once."""
    return {name: File(path.read_bytes(), MIME[name.rpartition(".")[2]]) for name, path in _below(files("pcme.serve"))}


def _below(package: Traversable) -> list[tuple[str, Traversable]]:
    folder = package / "page"
    return [(path.name, path) for path in folder.iterdir() if path.name.rpartition(".")[2] in MIME]


def add_page(app: FastAPI) -> None:
    """/ and /page/NAME."""
    known = page_files()

    @app.get("/", include_in_schema=False)
    async def start() -> Response:
        return _answer(known[START])

    @app.get("/page/{name}", include_in_schema=False)
    async def file(name: str) -> Response:
        if name not in known:
            raise Problem(404, f"{name!r:.100}: the page has no such file.")
        return _answer(known[name])


def _answer(file: File) -> Response:
    return Response(file.content, media_type=file.media_type, headers={"Cache-Control": "no-cache"})
