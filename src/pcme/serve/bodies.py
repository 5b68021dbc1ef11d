"""Bodies: JSON or a form with images, as what `schemas` describes."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeVar

from PIL import Image
from pydantic import BaseModel
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request

from pcme.data.images.decoding import ImageError, decode
from pcme.data.sources import NamedImages
from pcme.errors import DataError
from pcme.serve.limits import MAX_FIELD, MAX_FIELDS, MAX_IMAGES, MAX_PIXELS
from pcme.serve.problems import Problem

M = TypeVar("M", bound=BaseModel)

IMAGES = ("image", "images")
"""The fields of a form that hold images."""
LISTS = ("all_of", "any_of", "but_not")
"""Fields that may be given several times."""
JSON = ("items",)
"""Fields that hold JSON."""
LONG = 2**16
"""Bytes of JSON that are read in a thread of their own."""


def is_form(request: Request) -> bool:
    """Whether the body is a form; a problem if it is neither that nor JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/json", "multipart/form-data"):
        raise Problem(
            415,
            f"Content-Type: must be application/json or multipart/form-data, got {kind!r:.100}. Name the body's kind.",
        )
    return kind == "multipart/form-data"


async def read_json(request: Request, model: type[M]) -> M:
    """The JSON body as a model; a ValidationError says what is wrong with it."""
    body = await request.body()
    if len(body) > LONG:
        return await asyncio.to_thread(model.model_validate_json, body)
    return model.model_validate_json(body)


@dataclass(frozen=True)
class Form:
    """The fields of a form and its images."""

    fields: Mapping[str, object]
    images: Sequence[UploadFile]

    def read(self, model: type[M]) -> M:
        """The fields as a model."""
        return model.model_validate(self.fields)


@asynccontextmanager
async def read_form(request: Request, *, images: int = MAX_IMAGES) -> AsyncIterator[Form]:
    """The form of a request, with at most so many images; files end with the block."""
    async with request.form(max_files=images, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD) as form:
        yield Form(_fields(form), _images(form))


def _images(form: FormData) -> list[UploadFile]:
    files = [(name, value) for name, value in form.multi_items() if isinstance(value, UploadFile)]
    if strange := [name for name, _ in files if name not in IMAGES]:
        raise Problem(422, f'form: files must be in the field "{IMAGES[0]}", got {strange[0]!r:.100}. Rename it.')
    if not files:
        raise Problem(422, f'form: has no file. Send an image in the field "{IMAGES[0]}".')
    return [file for _, file in files]


def _fields(form: FormData) -> dict[str, object]:
    fields: dict[str, object] = {}
    for name in form:
        values = [value for value in form.getlist(name) if isinstance(value, str)]
        if name in LISTS:
            fields[name] = values
        elif len(values) > 1:
            raise Problem(422, f"form: has several {name!r:.100}. Give one.")
        elif values:
            fields[name] = _json(name, values[0]) if name in JSON else values[0]
    return fields


def _json(name: str, text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Problem(422, f"{name}: not JSON, {error}. Write a list of objects.") from error


async def decoded(file: UploadFile) -> Image.Image:
    """The image in a file, if it is one and not too large."""
    try:
        return await asyncio.to_thread(decode, await file.read(), max_pixels=MAX_PIXELS)
    except ImageError as error:
        raise DataError(f"image: {error}. Send another image, or a smaller one.") from error


def name_of(file: UploadFile) -> str | None:
    """The name of a file, without folders."""
    return PurePosixPath((file.filename or "").replace("\\", "/")).name or None


@dataclass(frozen=True, eq=False)
class Uploads(NamedImages):
    """Images that were sent, decoded one by one when they are embedded."""

    names: Sequence[str]
    contents: Sequence[bytes]

    def load(self, index: int) -> Image.Image:
        """The decoded image."""
        return decode(self.contents[index], max_pixels=MAX_PIXELS)

    def stamp(self, index: int) -> str:
        """The name: nothing is cached."""
        return self.id(index)
