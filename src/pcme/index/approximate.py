"""Search beyond memory: the ANN index proposes and the score decides; or all rows are streamed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int64

from pcme.core.random import numpy_stream
from pcme.embedding import Embedding
from pcme.index.ann import AnnIndex
from pcme.index.exact import SAMPLE, uncertainties
from pcme.index.queries import EncodedQuery, Ranked
from pcme.index.rows import embedding_of
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.scores.base import Score
from pcme.scores.combine import Calibrate
from pcme.scores.gallery import best_first
from pcme.scores.lifts import Lift

__all__ = ["Approximate", "Effort", "stream"]

FEW = 20_000
"""If a filter leaves no more rows than this, all of them are scored."""


@dataclass(frozen=True)
class Effort:
    """How hard the ANN index looks: partitions that it searches, candidates that it proposes."""

    probes: int = 20
    shortlist: int = 200


@dataclass(eq=False)
class Approximate:
    """The two stages on disk: candidates by vector, order by score."""

    settings: Settings
    store: Store
    lift: Lift

    def __post_init__(self) -> None:
        self._sample: tuple[int, Int64[np.ndarray, " s"], Embedding] | None = None

    def search(
        self,
        query: EncodedQuery,
        k: int,
        effort: Effort,
        *,
        where: str | None = None,
        calibrate: Calibrate | None = None,
    ) -> Ranked:
        """Nearly the k best."""
        version = self.store.refresh()
        left = None if where is None else self.store.read(["seq"], where)["seq"].to_numpy()
        searched = self.store.count() if left is None else len(left)
        if left is not None and searched <= FEW:
            return stream(
                self.store, self.settings.score, query, k, where=where, calibrate=calibrate
            )
        table = self.propose(query, k, effort, _embedding_columns(self.store), where)
        scores = query.scores(embedding_of(table), self.settings.score, calibrate)
        others = self._others(version, left, table["seq"].to_numpy())
        return replace(
            _rank(table, scores, k),
            sample=scores[:0]
            if others is None
            else query.scores(others, self.settings.score, calibrate),
            searched=searched,
            exact=False,
        )

    def nearest(
        self, embedding: Embedding, effort: Effort, columns: Sequence[str], where: str | None = None
    ) -> pa.Table:
        """The rows that the ANN index proposes for one embedding, best first."""
        vector = self.lift.queries(embedding)[0]
        return AnnIndex(self.store).nearest(
            vector, columns, count=effort.shortlist, probes=effort.probes, where=where
        )

    def propose(
        self, query: EncodedQuery, k: int, effort: Effort, columns: Sequence[str], where: str | None
    ) -> pa.Table:
        """At least k candidates per part of a query, each row once; `columns` include seq."""
        wider = replace(effort, shortlist=max(k, effort.shortlist))
        parts = [self.nearest(part, wider, columns, where) for part in query.proposals()]
        table = pa.concat_tables(parts)
        _, first = np.unique(table["seq"].to_numpy(), return_index=True)
        return table.take(first)

    def _others(
        self,
        version: int,
        left: Int64[np.ndarray, " m"] | None,
        proposed: Int64[np.ndarray, " p"],
    ) -> Embedding | None:
        """Some items that were not proposed, drawn evenly from all that the filter leaves."""
        if self._sample is None or self._sample[0] != version:
            self._sample = version, *self._draw()
        _, seq, items = self._sample
        chosen = ~np.isin(seq, proposed)
        if left is not None:
            chosen &= np.isin(seq, left)
        return items[np.flatnonzero(chosen).tolist()] if chosen.any() else None

    def _draw(self) -> tuple[Int64[np.ndarray, " s"], Embedding]:
        every = self.store.read(["seq"])["seq"].to_numpy()
        drawn = numpy_stream(0, "others").choice(every, min(SAMPLE, len(every)), replace=False)
        listed = ", ".join(map(str, np.sort(drawn).tolist()))
        table = self.store.read(_embedding_columns(self.store), f"seq IN ({listed})")
        return table["seq"].to_numpy(), embedding_of(table)


def stream(
    store: Store,
    score: Score,
    query: EncodedQuery,
    k: int,
    *,
    where: str | None = None,
    calibrate: Calibrate | None = None,
) -> Ranked:
    """The k best of all rows that a filter leaves: each is scored, some thousand at a time."""
    none = np.empty(0, np.float32)
    best = Ranked([], none, None, none, none, 0, exact=True)
    pools: list[Float[np.ndarray, " n"]] = []
    for table in store.batches(_embedding_columns(store), where):
        scores = query.scores(embedding_of(table), score, calibrate)
        pools.append(scores)
        best = _merge(best, _rank(table, scores, k), k)
    pool = np.concatenate(pools) if pools else none
    return replace(best, pool=pool, sample=pool[:0], searched=len(pool))


def _embedding_columns(store: Store) -> list[str]:
    """The columns that ids and scores come from."""
    return [name for name in ("id", "seq", "mean", "log_sigma") if name in store.schema.names]


def _rank(table: pa.Table, scores: Float[np.ndarray, " n"], k: int) -> Ranked:
    ids: list[str] = table["id"].to_pylist()
    order = best_first(scores, ids.__getitem__, k)
    return Ranked(
        [ids[n] for n in order.tolist()],
        scores[order],
        uncertainties(embedding_of(table.take(order))),
        scores,
        scores[:0],
        len(table),
        exact=True,
    )


def _merge(left: Ranked, right: Ranked, k: int) -> Ranked:
    """The k best of both."""
    ids, scores = left.ids + right.ids, np.concatenate((left.scores, right.scores))
    order = best_first(scores, ids.__getitem__, k)
    both = (left.uncertainty or []) + (right.uncertainty or [])
    return replace(
        left,
        ids=[ids[n] for n in order.tolist()],
        scores=scores[order],
        uncertainty=[both[n] for n in order.tolist()] if both else None,
    )
