"""SearchIndex: images and captions in, the best matches out, with how sure each of them is.

::

    index = SearchIndex.create("birds.index", "runs/aviary")
    index.add("photos/")
    for hit in index.search("a small red bird", k=5):
        print(hit.rank, hit.match_probability, hit.path)

Search has two stages. The first proposes candidates: for an index in memory a scan whose bound
proves that nothing was missed, for a large one the engine's approximate index. The second is the
model's own score, which alone decides the order.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pcme import scores
from pcme.core.progress import Progress, silent
from pcme.data.problems import Problems
from pcme.embedding import Embedding, joined
from pcme.errors import ConfigError
from pcme.index.approximate import lift_in
from pcme.index.checking import Verified, verify
from pcme.index.description import Description, described
from pcme.index.encoder import Encoder
from pcme.index.finder import Finder
from pcme.index.hits import Hits
from pcme.index.interpret import Judge
from pcme.index.lifts import width_of
from pcme.index.queries import Query, Reader, combined
from pcme.index.resolve import Items, Metadata, sources_of
from pcme.index.rows import Kind, schema
from pcme.index.settings import ScoreId, Settings, Spread
from pcme.index.store import Store
from pcme.index.tuner import compacted, tuned
from pcme.index.tuning import DEPTH, Tuning, require_tunable, stand_ins, tuning_in
from pcme.index.writer import Added, OnConflict, Writer
from pcme.model import Model
from pcme.retrieval.ranking import checked_k
from pcme.scores.base import Score
from pcme.uncertainty import Confidence

__all__ = ["SearchIndex"]


class SearchIndex:
    """An index on disk (or at an object store's URI) and the model it belongs to.

    Embeddings that exist already go in and are searched for without encoding anything again. With
    "memory://" as its path an index leaves nothing on the disk::

        index = SearchIndex.create("memory://", model, confidence=confidence)
        index.add(images, {"number": range(len(images))}, ids=ids)  # a Gaussian, or Points
        for hits in index.search_many(captions, k=6, query_kind="caption"):
            hits.query.expected_matches, hits.query.answerable, hits.query.percentile
            hits[0].id, hits[0].match_probability, hits.calibrated
    """

    def __init__(self, store: Store, settings: Settings, encoder: Encoder) -> None:
        self._store, self.settings, self._encoder = store, settings, encoder
        self._reader = Reader(settings, encoder)
        self._writer = Writer(settings, store, encoder)
        # A version of its own: a search must not see the table change while it reads.
        self._finder = Finder(settings, store.twin(), encoder)

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
    ) -> "SearchIndex":
        """Create an empty index in a folder, or at a URI such as s3://bucket/birds or memory://.

        `model` is a model, or the folder of one. Without it the index is for vectors of your own,
        described by `dim`, `score` (default "mean") and `spread` (default "none"). `columns` are
        {name: Arrow type} of metadata; columns that come later with items get the type of their
        values. `confidence` calibrates the hits (default: that in the model's folder).
        """
        encoder = Encoder(model, confidence=confidence)
        if model is None:
            settings = _settings(dim, score, spread)
        elif (dim, score, spread) == (None, None, None):
            settings = encoder.settings()
        else:
            given = {"dim": dim, "score": score, "spread": spread}
            named = ", ".join(name for name, value in given.items() if value is not None)
            raise ConfigError(
                f"{named}: decided by the model, got both. Leave out {named}, or the model."
            )
        store = Store.create(str(path), schema(settings, width_of(settings), columns or {}))
        return cls(store, settings, encoder)

    @classmethod
    def open(
        cls,
        path: str | Path,
        model: Model | str | Path | None = None,
        *,
        confidence: Confidence | None = None,
    ) -> "SearchIndex":
        """Open the index at `path`, with the model it remembers unless another place is given.

        A model is loaded when it is first needed, and refused if the index was not made with it.
        """
        store = Store.open(str(path))
        settings = Settings.from_json((store.schema.metadata or {}).get(b"pcme", b""), str(path))
        return cls(store, settings, Encoder.of_index(settings, model, confidence))

    @property
    def path(self) -> str:
        """Where it lies."""
        return self._store.uri

    def __len__(self) -> int:
        self._store.version()
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

        A text is a path or the name of a dataset, as in `pcme index add`. Ids default to file names
        or to those of the dataset; metadata have one value per item. Items whose id exists are
        skipped unless `on_conflict` says otherwise; an id that exists with another path or text is
        an error. Unusable items are left out and reported to `problems`; without it the first one
        is an error. Items are written in chunks: those that `progress` has counted are stored for
        good, and after an interruption the same call resumes.
        """
        noted = Problems(strict=True) if problems is None else problems
        found = sources_of(items, metadata, ids, kind, noted)
        return self._writer.add(found, on_conflict, noted, progress)

    def delete(self, ids: Sequence[str] | str | None = None, *, where: str | None = None) -> int:
        """Remove the items with these ids, or all that match a filter; says how many there were."""
        if (ids is None) == (where is None):
            raise ConfigError("delete takes either ids or a filter (where=)")
        if where is not None:
            return self._writer.delete_where(where)
        return self._writer.delete([ids] if isinstance(ids, str) else list(ids or ()))

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
        """The k items that match best, of all, or of those that a filter and a kind leave.

        They match the query and `all_of` these, or instead one of `any_of`, `but_not` one of those
        (docs/guide/combine.md). `where` is SQL over the columns: "year > 2015 and place = 'Oslo'"
        (docs/guide/search.md). With `min_coverage`, a query is answerable if it is among this share
        of the calibration's queries, the surest ones (docs/science/calibration.md).
        """
        asked = combined(query, all_of, any_of, but_not)
        return self.search_many(
            [asked], k, where=where, kind=kind, exact=exact, min_coverage=min_coverage
        )[0]

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

        `query_kind` says what embedded queries are of: their percentile is then known too.
        """
        checked_k(k)
        is_probability = self.settings.score.create().is_log_probability
        judge = Judge.covering(is_probability, self._encoder.confidence, min_coverage)
        wanted = [self._reader.wanted(queries[n], query_kind) for n in range(len(queries))]
        found = self._finder.found(wanted, k, where=_clause(where, kind), exact=exact)
        return [judge.hits(*pair, found.known) for pair in zip(wanted, found.answers, strict=True)]

    def ids(self, where: str | None = None) -> list[str]:
        """The ids of all items, or of those that match a filter, in the order they were added."""
        return self._finder.ids(where)

    def compact(self) -> None:
        """Join what many small writes left, drop what was deleted, bring the rest up to date.

        A tuned index is built anew, with the effort that was found for it. Space is freed at once:
        a search that another process has under way begins anew.
        """
        compacted(self._store, self.settings)

    def verify(self, progress: Progress = silent) -> Verified:
        """Read every row and compare it with what it must be."""
        self._store.version()
        return verify(self._store, lift_in(self.settings, self._store), progress)

    def describe(self) -> Description:
        """What is in it and how it is searched."""
        self._store.version()
        return described(self._store, self.settings, tuning_in(self._store))

    def tune(
        self,
        queries: Sequence[Query] | None = None,
        *,
        target: float = 0.99,
        progress: Progress = silent,
    ) -> Tuning:
        """Build the approximate index and find the least effort that has this recall@10.

        `queries` should be like those to come; without any, items of the index stand in for them.
        """
        self._store.version()
        require_tunable(self.path, self._store.count(), self.settings, target)
        if queries is None:
            asked = stand_ins(self._store)
        else:
            asked = joined([self._reader.single(query) for query in queries])
        return tuned(
            self._writer,
            asked,
            lambda one: self._finder.exact([one], DEPTH)[0].ids,
            target=target,
            progress=progress,
        )

    def load(self) -> None:
        """Take all embeddings into memory, as a server does once: every search is then quicker."""
        self._finder.load()


def _settings(dim: int | None, score: Score | str | None, spread: Spread | None) -> Settings:
    """Those of an index of vectors that are brought along."""
    if dim is None:
        raise ConfigError("an index needs a model, or the dimension of your own vectors (dim=)")
    chosen = score if isinstance(score, Score) else scores.create(score or "mean")
    return Settings(dim, spread or "none", ScoreId.of(chosen))


def _clause(where: str | None, kind: Kind | None) -> str | None:
    """The filter, and the kind."""
    if kind is None:
        return where
    if kind not in ("image", "caption"):
        raise ConfigError(f'a kind is image or caption - got "{kind}"')
    own = f"kind = '{kind}'"
    return own if where is None else f"({where}) AND {own}"
