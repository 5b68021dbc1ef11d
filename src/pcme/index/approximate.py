"""Search beyond memory: the ANN index proposes and the score decides, or all rows are streamed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int64

from pcme.core.random import numpy_stream
from pcme.embedding import Embedding
from pcme.index.ann import AnnIndex, lift_in
from pcme.index.exact import SAMPLE
from pcme.index.queries import EncodedQuery, Ranked, Request
from pcme.index.rows import embedding_of
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.scores.base import Score
from pcme.scores.gallery import best_first

FEW = 20_000
"""If a filter leaves no more rows than this, all of them are scored."""


@dataclass(frozen=True)
class Effort:
    """How hard the ANN index looks: partitions that it searches, candidates that it proposes."""

    probes: int = 20
    shortlist: int = 200


class Approximate:
    """The two stages on disk: candidates by vector, order by score."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings, self.store = settings, store
        lift = lift_in(settings, store)
        assert lift is not None  # only tunable indexes are searched so
        self.lift = lift
        self._sample: tuple[int, Int64[np.ndarray, " s"], Embedding] | None = None

    def search(self, query: EncodedQuery, effort: Effort, request: Request) -> Ranked:
        """Nearly the k best."""
        version, where, score = self.store.refresh(), request.where, self.settings.score
        left = None if where is None else self.store.read(["seq"], where)["seq"].to_numpy()
        if left is not None and len(left) <= FEW:
            return stream(self.store, score, query, request)
        table = self.propose(query, effort, self.store.embedding_columns, request)
        scores = query.scores(embedding_of(table), score, request.calibrate)
        others = self._others(version, left, table["seq"].to_numpy())
        sample = scores[:0] if others is None else query.scores(others, score, request.calibrate)
        best, top = _best(table, scores, request.k)
        searched = self.store.count() if left is None else len(left)
        uncertainty = embedding_of(best).uncertainty()
        return Ranked(best["id"].to_pylist(), top, uncertainty, scores, sample, searched, exact=False)

    def nearest(
        self, embedding: Embedding, effort: Effort, columns: Sequence[str], where: str | None = None
    ) -> pa.Table:
        """The rows that the ANN index proposes for one embedding, best first."""
        vector = self.lift.queries(embedding)[0]
        return AnnIndex(self.store).nearest(vector, columns, effort.shortlist, effort.probes, where)

    def propose(self, query: EncodedQuery, effort: Effort, columns: Sequence[str], request: Request) -> pa.Table:
        """At least k candidates per part of a query, each row once; `columns` include seq."""
        wider = replace(effort, shortlist=max(request.k, effort.shortlist))
        parts = [self.nearest(part, wider, columns, request.where) for part in query.proposals()]
        table = pa.concat_tables(parts)
        _, first = np.unique(table["seq"].to_numpy(), return_index=True)
        return table.take(first)

    def _others(
        self, version: int, left: Int64[np.ndarray, " m"] | None, proposed: Int64[np.ndarray, " p"]
    ) -> Embedding | None:
        """Some items that were not proposed, drawn evenly from all that the filter leaves."""
        if self._sample is None or self._sample[0] != version:
            every = self.store.read(["seq"])["seq"].to_numpy()
            drawn = numpy_stream(0, "others").choice(every, min(SAMPLE, len(every)), replace=False)
            table = self.store.embeddings(drawn)
            self._sample = version, table["seq"].to_numpy(), embedding_of(table)
        _, seq, items = self._sample
        chosen = ~np.isin(seq, proposed)
        if left is not None:
            chosen &= np.isin(seq, left)
        return items[np.flatnonzero(chosen).tolist()] if chosen.any() else None


def stream(store: Store, score: Score, query: EncodedQuery, request: Request) -> Ranked:
    """The k best of all rows that a filter leaves: each is scored, some thousand at a time."""
    best: pa.Table | None = None
    top, pools = np.empty(0, np.float32), [np.empty(0, np.float32)]
    for table in store.batches(store.embedding_columns, request.where):
        pools.append(query.scores(embedding_of(table), score, request.calibrate))
        merged = table if best is None else pa.concat_tables([best, table])
        best, top = _best(merged, np.concatenate((top, pools[-1])), request.k)
    pool = np.concatenate(pools)
    if best is None:
        return Ranked([], top, None, pool, pool, 0, exact=True)
    uncertainty = embedding_of(best).uncertainty()
    return Ranked(best["id"].to_pylist(), top, uncertainty, pool, pool[:0], len(pool), exact=True)


def _best(table: pa.Table, scores: Float[np.ndarray, " n"], k: int) -> tuple[pa.Table, Float[np.ndarray, " k"]]:
    """The k best rows and their scores, best first; equal scores by the text of their ids."""
    order = best_first(scores, table["id"].to_pylist().__getitem__, k)
    return table.take(order), scores[order]
