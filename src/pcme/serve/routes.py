"""Routes: the operations of the API, each a few lines over the service."""

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from starlette.responses import Response

from pcme.embedding import Embedding, Gaussian
from pcme.index.rows import Kind
from pcme.serve import asked, bodies
from pcme.serve.answers import (
    FILE,
    AddAnswer,
    DeleteAnswer,
    DescribeAnswer,
    EmbedAnswer,
    HealthAnswer,
    ItemAnswer,
    Json,
    SearchAnswer,
    answer,
    body,
    media,
    responses,
)
from pcme.serve.limits import MAX_IMAGES, MAX_K, MAX_TEXTS
from pcme.serve.metrics import CONTENT_TYPE
from pcme.serve.problems import Problem
from pcme.serve.schemas import AddRequest, EmbedRequest, Id, ImagesRequest, SearchRequest, Text, Where
from pcme.serve.security import Gate
from pcme.serve.service import Service
from pcme.serve.work import Addition

TEXTS = {"type": "array", "items": {"type": "string"}}
TOKEN: Json = {"security": [{"token": []}]}


def add_search(app: FastAPI, service: Service) -> None:
    """/v1/search."""

    @app.get("/v1/search", responses=responses(SearchAnswer), summary="Search by a text")
    async def search_by_text(
        q: Annotated[Text, Query(description="a text", examples=["a small red bird"])],
        k: Annotated[int, Query(ge=1, le=MAX_K)] = 10,
        where: Annotated[Where | None, Query(description="a filter", examples=["year > 2000"])] = None,
        kind: Annotated[Kind | None, Query(description="only items of this kind")] = None,
        exact: Annotated[bool | None, Query()] = None,
        min_coverage: Annotated[float | None, Query(ge=0, le=1)] = None,
    ) -> Response:
        request = SearchRequest(q=q, k=k, where=where, kind=kind, exact=exact, min_coverage=min_coverage)
        return answer((await service.search(q, asked.options_of(request))).record())

    extra = body(
        SearchRequest,
        FILE,
        q={"type": "string"},
        k={"type": "integer", "minimum": 1, "maximum": MAX_K, "default": 10},
        where={"type": "string"},
        kind={"enum": ["image", "caption"]},
        all_of=TEXTS,
        any_of=TEXTS,
        but_not=TEXTS,
        exact={"type": "boolean"},
        min_coverage={"type": "number", "minimum": 0, "maximum": 1},
    )

    @app.post("/v1/search", responses=responses(SearchAnswer), openapi_extra=extra, summary="Search by anything")
    async def search(request: Request) -> Response:
        if not bodies.is_form(request):
            wanted = await bodies.read_json(request, SearchRequest)
            query, kind = await asked.query_of(service, wanted)
            return answer((await service.search(query, asked.options_of(wanted), kind)).record())
        with service.uploading():
            async with bodies.read_form(request, images=1) as form, service.decoding:
                wanted = form.read(SearchRequest)
                query, kind = await asked.query_of(service, wanted, await bodies.decoded(form.images[0]))
                return answer((await service.search(query, asked.options_of(wanted), kind)).record())


def add_embed(app: FastAPI, service: Service) -> None:
    """/v1/embed."""

    @app.get("/v1/embed", responses=responses(EmbedAnswer), summary="Embed a text")
    async def embed_text(q: Annotated[Text, Query(examples=["a small red bird"])]) -> Response:
        return answer(_embeddings([await service.embed([q])]))

    @app.post(
        "/v1/embed",
        responses=responses(EmbedAnswer),
        openapi_extra=body(EmbedRequest, {"type": "array", "items": FILE, "maxItems": MAX_TEXTS}),
        summary="Embed texts, or images",
    )
    async def embed(request: Request) -> Response:
        if not bodies.is_form(request):
            wanted = await bodies.read_json(request, EmbedRequest)
            return answer(_embeddings([await service.embed(wanted.all)]))
        with service.uploading():
            async with bodies.read_form(request, images=MAX_TEXTS) as form, service.decoding:
                _require_no_fields(form)
                # one at a time: so many decoded images would not fit into the memory
                return answer(_embeddings([await service.embed([await bodies.decoded(f)]) for f in form.images]))


def add_items(app: FastAPI, service: Service, gate: Gate, *, images: bool) -> None:
    """/v1/items and /v1/describe."""

    @app.get("/v1/describe", responses=responses(DescribeAnswer), summary="Describe the index")
    async def describe() -> Response:
        description = await service.describe()
        return answer({**description.record(), "read_only": gate.read_only, "images": images})

    extra = body(
        AddRequest,
        {"type": "array", "items": FILE, "maxItems": MAX_IMAGES},
        items={"type": "string", "contentMediaType": "application/json", "description": "[{id, metadata}] per image"},
        on_conflict={"enum": ["skip", "replace", "error"], "default": "skip"},
    )

    @app.post("/v1/items", responses=responses(AddAnswer), openapi_extra={**extra, **TOKEN}, summary="Add items")
    async def add(request: Request) -> Response:
        gate.require(request)
        if not bodies.is_form(request):
            wanted = await bodies.read_json(request, AddRequest)
            return await _added(service, Addition(asked.source_of(wanted), wanted.on_conflict))
        with service.uploading():
            async with bodies.read_form(request) as form:
                fields = form.read(ImagesRequest)
                names, contents = [bodies.name_of(f) for f in form.images], [await f.read() for f in form.images]
            source = asked.source_of_images(fields, names, contents)
            return await _added(service, Addition(source, fields.on_conflict))

    @app.get("/v1/items/{id:path}", responses=responses(ItemAnswer), summary="An item")
    async def item(id: Id) -> Response:  # noqa: A002 - the name in the address
        return answer((await service.item(id)).record())

    @app.delete("/v1/items/{id:path}", responses=responses(DeleteAnswer), openapi_extra=TOKEN, summary="Delete an item")
    async def delete(request: Request, id: Id) -> Response:  # noqa: A002
        gate.require(request)
        deleted, rows = await service.delete(id)
        if not deleted:
            raise Problem(404, f'id: "{id:.200}" is not in the index.')
        return answer({"deleted": deleted, "rows": rows})


def add_state(app: FastAPI, service: Service) -> None:
    """/healthz, /readyz and /metrics."""

    @app.get("/healthz", responses=responses(HealthAnswer), summary="Does the server run?")
    async def health() -> Response:
        return answer({"status": "ok"})

    @app.get("/readyz", responses=responses(HealthAnswer), summary="Would a search be answered now?")
    async def ready() -> Response:
        return answer({"status": "ready", "rows": await service.ready()})

    @app.get("/metrics", responses=media("text/plain"), summary="Counts and times for Prometheus")
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)


async def _added(service: Service, addition: Addition) -> Response:
    done, rows = await service.add(addition)
    problems = addition.problems.record()
    if not done.added + done.replaced + done.present:
        raise Problem(422, "none of these items can be used.", further={"problems": problems})
    counts = {"added": done.added, "replaced": done.replaced, "present": done.present}
    return answer({**counts, "rows": rows, "problems": problems})


def _embeddings(parts: list[Embedding]) -> dict[str, Any]:
    return {"embeddings": [_embedding(part[n]) for part in parts for n in range(len(part))]}


def _embedding(row: Embedding) -> dict[str, Any]:
    if not isinstance(row, Gaussian):
        return {"mean": row.x[0, 0].tolist(), "log_sigma": None, "uncertainty": None}
    uncertainty = float(row.uncertainty()[0])
    return {"mean": row.mean[0].tolist(), "log_sigma": row.log_sigma[0].tolist(), "uncertainty": uncertainty}


def _require_no_fields(form: bodies.Form) -> None:
    if form.fields:
        raise Problem(422, f"form: has the field {next(iter(form.fields))!r:.100}. Send images alone.")
