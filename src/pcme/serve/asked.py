"""Asked: what a request means for the index; a query and its options, or items to be added."""

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from pcme.embedding import joined
from pcme.errors import DataError
from pcme.index import Embeddings, Item
from pcme.index.items import Captions, Images, Source
from pcme.index.queries import Query, combine_queries
from pcme.index.rows import Kind, metadata_table
from pcme.scores import combine
from pcme.serve.bodies import Uploads
from pcme.serve.filters import checked
from pcme.serve.schemas import AddRequest, ImagesRequest, NewImage, Part, SearchRequest, Vector, metadata_of
from pcme.serve.service import Options, Service


def options_of(request: SearchRequest) -> Options:
    """How the hits are chosen; the filter is checked."""
    return Options(request.k, checked(request.where), request.kind, request.exact, request.min_coverage)


async def query_of(
    service: Service, request: SearchRequest, image: Image.Image | None = None
) -> tuple[combine.Query, Kind | None]:
    """The query, and what it is of where it is an item of the index alone."""
    reader = await _Reader.of(service, request)
    given = [request.q, Part(id=request.id) if request.id else None, request.vector, image, *request.all_of]
    wanted = [reader.query(part) for part in given if part is not None]
    either, unwanted = map(reader.query, request.any_of), map(reader.query, request.but_not)
    query = combine_queries(None, wanted, list(either), list(unwanted))
    alone = isinstance(query, combine.One) and request.id is not None
    return query, reader.items[request.id].kind if alone and request.id else None


@dataclass(frozen=True)
class _Reader:
    """Reads the parts of a query; `items` are those of the index that it names."""

    service: Service
    items: dict[str, Item]

    @classmethod
    async def of(cls, service: Service, request: SearchRequest) -> "_Reader":
        parts = [*request.all_of, *request.any_of, *request.but_not]
        ids = [part.id for part in parts if isinstance(part, Part) and part.id is not None]
        ids += [request.id] if request.id else []
        items = {item.id: item for item in await service.items(ids)} if ids else {}
        if missing := [name for name in ids if name not in items]:
            raise DataError(f'id: "{missing[0]:.200}" is not in the index. Search by an item that is.')
        return cls(service, items)

    def query(self, part: object) -> Query:
        """A text, an image, or an embedding that fits the index."""
        if isinstance(part, str | Image.Image):
            return part
        if isinstance(part, Part) and part.text is not None:
            return part.text
        if isinstance(part, Part) and part.id is not None:
            return self.items[part.id].embedding
        vector = part.vector if isinstance(part, Part) else part
        assert isinstance(vector, Vector)  # one of three, as the schema says
        return self.service.index.settings.fitted(vector.embedding(), "vector")


def source_of(request: AddRequest) -> Source:
    """Captions or vectors to be added."""
    ids = [item.id for item in request.items]
    metadata = metadata_table(metadata_of(request.items), len(ids))
    vectors = [item.vector.embedding() for item in request.items if item.vector is not None]
    texts = [item.text for item in request.items]
    if not vectors:
        return Captions([text for text in texts if text is not None], ids, metadata)
    return Embeddings(ids, joined(vectors), request.items[0].kind or "image", texts=texts, metadata=metadata)


def source_of_images(request: ImagesRequest, names: Sequence[str | None], contents: Sequence[bytes]) -> Source:
    """Images to be added; an id is given, or the name of the file."""
    items = list(request.items) or [NewImage()] * len(names)
    if len(items) != len(names):
        raise DataError(f"items: must be one per image ({len(names)}), got {len(items)}.")
    named = [NewImage(id=item.id or name, metadata=item.metadata) for item, name in zip(items, names, strict=True)]
    if any(item.id is None for item in named):
        raise DataError("image: has neither an id nor the name of a file. Give one.")
    ids = [item.id or "" for item in named]
    return Images(Uploads(ids, contents), ids, metadata_table(metadata_of(items), len(ids)))
