"""Search beyond memory: the engine proposes, the score decides; or everything is streamed by."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int64

from pcme.core.random import numpy_stream
from pcme.embedding import Embedding
from pcme.index.exact import SAMPLE, uncertainties
from pcme.index.lifts import Lift, lift_of
from pcme.index.rows import embedding_of
from pcme.index.scans import best_first
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.index.values import Exact
from pcme.index.wanted import Answer, Wanted
from pcme.scores.combine import Calibrate

__all__ = ["LIFT", "Approximate", "Effort", "lift_in", "streamed"]

FEW = 20_000
"""Rows that a filter may leave for all of them to be scored: no proposals are needed then."""


LIFT = "lift"
"""Under which name a fitted lift is kept beside the rows."""


def lift_in(settings: Settings, store: Store) -> Lift | None:
    """The lift by which the vectors of a store were made; None where there are none."""
    if "vector" not in store.schema.names:
        return None
    return lift_of(settings, store.attached(LIFT))


@dataclass(frozen=True)
class Effort:
    """How hard the engine looks: partitions that are searched, and candidates it proposes."""

    probes: int = 20
    shortlist: int = 200


@dataclass(eq=False)
class Approximate:
    """The two stages on disk: proposals by vector, order by score."""

    settings: Settings
    store: Store
    lift: Lift

    def __post_init__(self) -> None:
        self.exact = Exact(self.settings.score.create())
        self._sample = _Sample(np.empty(0, np.int64), None)
        self._sampled_of = -1

    def answer(
        self,
        wanted: Wanted,
        k: int,
        effort: Effort,
        *,
        where: str | None = None,
        calibrate: Calibrate | None = None,
    ) -> Answer:
        """Nearly the k best."""
        version = self.store.version()
        left = None if where is None else self.store.read(["seq"], where)["seq"].to_numpy()
        searched = self.store.count() if left is None else len(left)
        if left is not None and searched <= FEW:
            return streamed(self.store, self.exact, wanted, k, where=where, calibrate=calibrate)
        wider = replace(effort, shortlist=max(k, effort.shortlist))
        table = self.proposed(wanted, wider, _numbers(self.settings), where)
        scores = wanted.scores(embedding_of(table), self.exact, calibrate)
        sample = self._others(version, left, set(table["seq"].to_pylist()))
        return replace(
            _best(table, scores, k),
            sample=scores[:0] if sample is None else wanted.scores(sample, self.exact, calibrate),
            searched=searched,
            exact=False,
        )

    def proposals(
        self, query: Embedding, effort: Effort, columns: Sequence[str], where: str | None = None
    ) -> pa.Table:
        """What the engine takes for the nearest to one embedding, best first."""
        return self.store.nearest(
            self.lift.queries(query)[0],
            columns,
            count=effort.shortlist,
            probes=effort.probes,
            where=where,
        )

    def proposed(
        self, wanted: Wanted, effort: Effort, columns: Sequence[str], where: str | None = None
    ) -> pa.Table:
        """The proposals for every part of a query, each row once; `columns` include seq."""
        parts = [self.proposals(one, effort, columns, where) for one in wanted.proposals()]
        whole = pa.concat_tables(parts)
        _, first = np.unique(whole["seq"].to_numpy(), return_index=True)
        return whole.take(first)

    def _others(
        self, version: int, left: Int64[np.ndarray, " m"] | None, proposed: set[int]
    ) -> Embedding | None:
        """Some items that were not proposed, drawn evenly from all, or from what is left."""
        if version != self._sampled_of:
            self._sample, self._sampled_of = self._draw(), version
        seq = self._sample.seq
        kept = ~np.isin(seq, list(proposed))
        if left is not None:
            kept &= np.isin(seq, left)
        if self._sample.embedding is None or not kept.any():
            return None
        return self._sample.embedding[np.flatnonzero(kept).tolist()]

    def _draw(self) -> "_Sample":
        every = self.store.read(["seq"])["seq"].to_numpy()
        size = min(SAMPLE, len(every))
        seq = np.sort(numpy_stream(0, "others").choice(every, size, replace=False))
        listed = ", ".join(map(str, seq.tolist()))
        table = self.store.read(_numbers(self.settings), f"seq IN ({listed})")
        return _Sample(table["seq"].to_numpy(), embedding_of(table))


@dataclass(frozen=True, eq=False)
class _Sample:
    seq: Int64[np.ndarray, " s"]
    embedding: Embedding | None


def streamed(
    store: Store,
    exact: Exact,
    wanted: Wanted,
    k: int,
    *,
    where: str | None = None,
    calibrate: Calibrate | None = None,
) -> Answer:
    """The k best of all that a filter leaves: every one is scored, some thousand at a time."""
    best: Answer | None = None
    pools: list[Float[np.ndarray, " n"]] = []
    columns = [n for n in ("id", "seq", "mean", "log_sigma") if n in store.schema.names]
    for table in store.batches(columns, where):
        scores = wanted.scores(embedding_of(table), exact, calibrate)
        pools.append(scores)
        found = _best(table, scores, k)
        best = found if best is None else _merged(best, found, k)
    if best is None:
        none = np.empty(0, np.float32)
        return Answer([], none, None, none, none, 0, exact=True)
    pool = np.concatenate(pools)
    return replace(best, pool=pool, sample=pool[:0], searched=len(pool))


def _numbers(settings: Settings) -> list[str]:
    """The columns that scores are made of."""
    return ["id", "seq", "mean", *([] if settings.spread == "none" else ["log_sigma"])]


def _best(table: pa.Table, scores: Float[np.ndarray, " n"], k: int) -> Answer:
    ids: Sequence[str] = table["id"].to_pylist()
    order = best_first(scores, ids.__getitem__, k)
    spreads = uncertainties(embedding_of(table.take(order)))
    return Answer(
        [ids[n] for n in order.tolist()],
        scores[order],
        spreads,
        scores,
        scores[:0],
        len(table),
        True,
    )


def _merged(left: Answer, right: Answer, k: int) -> Answer:
    ids, scores = left.ids + right.ids, np.concatenate((left.scores, right.scores))
    order = best_first(scores, ids.__getitem__, k)
    spreads = None
    if left.uncertainty is not None and right.uncertainty is not None:
        both = left.uncertainty + right.uncertainty
        spreads = [both[n] for n in order.tolist()]
    return replace(
        left, ids=[ids[n] for n in order.tolist()], scores=scores[order], uncertainty=spreads
    )
