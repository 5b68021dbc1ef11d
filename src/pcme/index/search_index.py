"""SearchIndex: images and captions in, the best matches out, each with its probability.

Search has two stages. The first proposes candidates: in memory a scan whose bound proves that nothing was missed, for a
large index the engine's ANN index. The second is the model's own score, which alone decides the order.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from pcme.core.checks import require_known
from pcme.core.progress import Progress, silent
from pcme.data.problems import Problems
from pcme.embedding import Embedding
from pcme.errors import ConfigError
from pcme.index import health, tuning
from pcme.index.encoder import Encoder
from pcme.index.finder import Finder
from pcme.index.health import Description, Verified
from pcme.index.hits import Hits, Item
from pcme.index.interpret import Interpreter
from pcme.index.queries import Query, QueryEncoder, Request, combine_queries
from pcme.index.resolve import Items, to_sources
from pcme.index.rows import Kind, Metadata, schema
from pcme.index.settings import Settings, Spread
from pcme.index.store import Store
from pcme.index.tuning import Tuning
from pcme.index.writer import Added, OnConflict, Writer
from pcme.kernels.devices import AUTO, DeviceLike
from pcme.model import Model
from pcme.retrieval.ranking import checked_k
from pcme.scores.base import Score
from pcme.scores.spec import Spec
from pcme.uncertainty import Confidence


class SearchIndex:
    """An index on disk (or at an object store's URI) and the model it belongs to.

    ::

        index = SearchIndex.create("birds.index", "runs/aviary")
        index.add("photos/")
        for hit in index.search("a small red bird", k=5):
            print(hit.rank, hit.match_probability, hit.path)

    Embeddings go in, and are searched for, without being encoded again. With the path "memory://" an index leaves
    nothing on the disk.
    """

    def __init__(self, store: Store, settings: Settings, encoder: Encoder) -> None:
        self._store, self.settings, self._encoder = store, settings, encoder
        self._query_encoder = QueryEncoder(settings, encoder)
        self._writer = Writer(settings, store, encoder)
        # A version of its own: a search must not see the table change while it reads.
        self._finder = Finder(settings, store.twin())

    @classmethod
    def create(
        cls,
        path: str | Path,
        model: Model | str | Path | None = None,
        *,
        dim: int | None = None,
        score: Score | str | None = None,
        spread: Spread | None = None,
        columns: Mapping[str, str] | None = None,
        confidence: Confidence | None = None,
        device: DeviceLike = AUTO,
    ) -> "SearchIndex":
        """Create an empty index in a folder, or at a URI such as s3://bucket/birds or memory://.

        `model` is a model or its folder. Without it the index is for vectors of your own, described by `dim`, `score`
        (default "mean") and `spread` (default "none"). `columns` are {name: Arrow type} of metadata; columns that come
        later with items get the type of their values. `confidence` calibrates the hits (default: that in the model's
        folder). `device` is where a model from a folder encodes; the search itself runs on the CPU.
        """
        encoder = Encoder(model, confidence=confidence, device=device)
        options = {"dim": dim, "score": score, "spread": spread}
        if model is not None and (decided := [name for name, value in options.items() if value is not None]):
            names = ", ".join(decided)
            raise ConfigError(f"{names}: decided by the model, got both. Leave out {names}, or the model.")
        if model is not None:
            settings = encoder.settings()
        elif dim is None:
            raise ConfigError("model: missing. Give a model, or the dimension of your vectors (dim=).")
        else:
            known = score if isinstance(score, Score) else Spec.parse(score or "mean").make()
            settings = Settings(dim, spread or "none", known)
        ann = settings.score.ann(settings.dim)
        store = Store.create(str(path), schema(settings, ann.width if ann else None, columns or {}))
        return cls(store, settings, encoder)

    @classmethod
    def open(
        cls,
        path: str | Path,
        model: Model | str | Path | None = None,
        *,
        confidence: Confidence | None = None,
        device: DeviceLike = AUTO,
    ) -> "SearchIndex":
        """Open the index at `path`, with the model it remembers or `model`; another than its own is refused."""
        store = Store.open(str(path))
        settings = Settings.from_json((store.schema.metadata or {}).get(b"pcme", b""), str(path))
        if model is None and settings.model is not None:
            model = settings.model.folder
        return cls(store, settings, Encoder(model, settings.model, confidence, device))

    @property
    def path(self) -> str:
        """The folder or URI."""
        return self._store.uri

    def __len__(self) -> int:
        self._store.refresh()
        return self._store.count()

    def add(
        self,
        items: Items,
        metadata: Metadata = None,
        *,
        ids: Sequence[str] | None = None,
        kind: Kind = "image",
        on_conflict: OnConflict = "skip",
        problems: Problems | None = None,
        progress: Progress = silent,
    ) -> Added:
        """Add a folder of images, images or captions (kind="caption"), a dataset, or embeddings.

        A text is a path or the name of a dataset, as in `pcme index add`. Ids default to file names or to those of the
        dataset; metadata have one value per item. Items whose id exists are skipped unless `on_conflict` says
        otherwise; an id that exists with another path or text is an error. Unusable items are left out and reported to
        `problems`; without it the first one is an error. Items are written in chunks: those that `progress` has counted
        are stored for good, and after an interruption the same call resumes.
        """
        problems = Problems(strict=True) if problems is None else problems
        sources = to_sources(items, metadata, ids, kind, problems)
        return self._writer.add(sources, on_conflict, problems, progress)

    def delete(self, ids: Sequence[str] | str | None = None, *, where: str | None = None) -> int:
        """Delete the items with these ids, or all that match a filter; return how many."""
        if (ids is None) == (where is None):
            raise ConfigError("delete: needs either ids or a filter. Give ids, or where=.")
        if where is not None and not where.strip():
            raise ConfigError("where: the filter is empty. To delete everything, use where='true'.")
        with self._store.writing():
            if where is not None:
                return self._store.delete(where)
            return self._store.delete_ids([ids] if isinstance(ids, str) else list(ids or ()))

    def search(
        self,
        query: Query | None = None,
        k: int = 10,
        *,
        all_of: Sequence[Query] = (),
        any_of: Sequence[Query] = (),
        but_not: Sequence[Query] = (),
        where: str | None = None,
        kind: Kind | None = None,
        exact: bool | None = None,
        min_coverage: float | None = None,
    ) -> Hits:
        """The k best matches among all items, or among those that a filter and a kind leave.

        They match the query and `all_of` these, or instead one of `any_of`, and none of `but_not`
        (docs/guide/combine.md). `where` is SQL over the columns: "year > 2015 and place = 'Oslo'"
        (docs/guide/search.md). With `min_coverage`, at least this share of the answerable calibration queries counts as
        answerable (docs/science/calibration.md).
        """
        combined = combine_queries(query, all_of, any_of, but_not)
        return self.search_many([combined], k, where=where, kind=kind, exact=exact, min_coverage=min_coverage)[0]

    def search_many(
        self,
        queries: Sequence[Query] | Embedding,
        k: int = 10,
        *,
        where: str | None = None,
        kind: Kind | None = None,
        exact: bool | None = None,
        min_coverage: float | None = None,
        query_kind: Kind | None = None,
    ) -> list[Hits]:
        """`search` for several queries in one pass; embeddings are one query per row.

        `query_kind` is the kind of items that embedded queries are of; it gives them a percentile too.
        """
        checked_k(k)
        is_probability = self.settings.score.is_log_probability
        interpreter = Interpreter.covering(is_probability, self._encoder.confidence, min_coverage)
        encoded = self._query_encoder.encode_many([queries[n] for n in range(len(queries))], query_kind)
        request = Request(k, _clause(where, kind), interpreter.calibrate)
        ranked, rows = self._finder.search(encoded, request, exact)
        return [interpreter.hits(query, best, rows) for query, best in zip(encoded, ranked, strict=True)]

    def embed(self, queries: Sequence[Query]) -> Embedding:
        """The embeddings of texts, images and vectors, as items are compared with them; one row each."""
        return self._query_encoder.embed(queries)

    def items(self, ids: Sequence[str]) -> list[Item]:
        """The items with these ids, in their order; ids that are not in the index are left out."""
        return self._finder.items(ids)

    def ids(self, where: str | None = None) -> list[str]:
        """The ids of all items, or of those that match a filter, in write order."""
        return self._finder.ids(where)

    def compact(self) -> None:
        """Merge fragments, reclaim deleted space, rebuild the ANN index with its tuned effort.

        Space is freed at once: a search under way in another process starts over.
        """
        tuning.compact(self._store, self.settings)

    def verify(self, progress: Progress = silent) -> Verified:
        """Read every row and check ids, checksums and ANN vectors."""
        return health.verify(self._store, self.settings, progress)

    def describe(self) -> Description:
        """Describe what the index holds and how it is searched."""
        return health.describe(self._store, self.settings)

    def tune(
        self, queries: Sequence[Query] | None = None, *, target: float = 0.99, progress: Progress = silent
    ) -> Tuning:
        """Build the ANN index and find the least effort with this recall@10.

        `queries` should be like those to come; without any, items of the index stand in for them.
        """
        embedded = None if queries is None else self.embed(queries)
        return tuning.tune(self._store, self.settings, embedded, self._finder.true_ids, target, progress)

    def load(self) -> None:
        """Load the model and all embeddings into memory, as a server does once: later searches are faster."""
        if self.settings.model is not None:
            _ = self._encoder.model, self._encoder.confidence
        self._finder.load()

    def twin(self) -> "SearchIndex":
        """The same index and model with versions of its own: one thread can write while another one searches."""
        return SearchIndex(self._store.twin(), self.settings, self._encoder)


def _clause(where: str | None, kind: Kind | None) -> str | None:
    """The filter, and the kind."""
    if kind is None:
        return where
    require_known("kind", kind, get_args(Kind))
    clause = f"kind = '{kind}'"
    return clause if where is None else f"({where}) AND {clause}"
