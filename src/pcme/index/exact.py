"""Search in memory: exact, by a scan with a proof; combined queries by scoring everything."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int64

from pcme.core.random import numpy_stream
from pcme.embedding import Embedding, joined
from pcme.index.queries import EncodedQuery, Ranked, Request
from pcme.index.resident import Resident
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.scores.gallery import TopK
from pcme.scores.scan import SCORED

SAMPLE = 2048
"""Items beyond the candidates from which the number of matches is estimated."""

RowNumbers = Int64[np.ndarray, " m"]


class InMemory:
    """All embeddings of a store, kept up to date, and the scan of the score."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.store, self.score = store, settings.score
        self.resident = Resident(settings)
        self.scan = self.score.scan(self.resident)
        self._drawn: tuple[int, RowNumbers, Embedding] | None = None

    def search(self, queries: list[EncodedQuery], request: Request) -> list[Ranked]:
        """The k best for each query; all but the combined ones in one scan."""
        self.resident.refresh(self.store)
        rows = self._rows(request.where)
        single = [query.embedding for query in queries if query.embedding is not None]
        ranked = iter(self._scan(joined(single), request.k, rows) if single else ())
        every = np.arange(len(self.resident)) if rows is None else rows
        return [
            self._ranked(self._score_all(query, every, request)) if query.embedding is None else next(ranked)
            for query in queries
        ]

    def among(self, query: EncodedQuery, seq: Int64[np.ndarray, " m"], request: Request) -> Ranked:
        """The k best of the candidates with these `seq`."""
        self.resident.refresh(self.store)
        rows, candidates = self._rows(request.where), self.resident.rows_of(seq)
        searched = len(self.resident) if rows is None else len(rows)
        if query.embedding is not None:
            top = self.scan.ranked(query.embedding, candidates, request.k, searched)
        else:
            top = replace(self._score_all(query, candidates, request), searched=searched)
        if searched == len(candidates):
            return self._ranked(top, exact=False)
        others, items = self._sample(rows, searched)
        return self._ranked(top, (others, query.scores(items, self.score, request.calibrate)), exact=False)

    def _rows(self, where: str | None) -> RowNumbers | None:
        """The rows that a filter leaves, ascending; None: all."""
        return None if where is None else self.resident.rows_of(self.store.read(["seq"], where)["seq"].to_numpy())

    def _scan(self, queries: Embedding, k: int, rows: RowNumbers | None) -> list[Ranked]:
        tops = self.scan.top(queries, k, rows)
        searched = tops[0].searched
        if searched == min(len(top.pool) for top in tops):  # every score is known
            return [self._ranked(top) for top in tops]
        others, items = self._sample(rows, searched)
        scores = self.score.each(queries, items)[None] if len(queries) == 1 else self.score(queries, items)
        return [self._ranked(top, (others, each)) for top, each in zip(tops, scores.numpy(), strict=True)]

    def _score_all(self, query: EncodedQuery, rows: RowNumbers, request: Request) -> TopK:
        """The k best of these rows for a combined query."""
        whole = self.resident.embedding
        parts = [
            query.scores(whole[torch.from_numpy(rows[i : i + SCORED])], self.score, request.calibrate)
            for i in range(0, len(rows), SCORED)
        ]
        scores = np.concatenate(parts) if parts else np.empty(0)
        top, best = self.resident.best(torch.from_numpy(scores)[None], torch.from_numpy(rows)[None], request.k)
        return TopK(best[0].numpy(), top[0].numpy(), rows, scores, len(rows))

    def _sample(self, rows: RowNumbers | None, count: int) -> tuple[Int64[np.ndarray, " s"], Embedding]:
        """Rows drawn evenly, and their items; of all rows they are kept until these change."""
        if rows is None and self._drawn and self._drawn[0] == self.resident.generation:
            return self._drawn[1:]
        drawn = numpy_stream(0, "others").choice(count, min(count, SAMPLE), replace=False)
        sample = drawn if rows is None else rows[drawn]
        items = self.resident.embedding[torch.from_numpy(sample)]
        if rows is None:
            self._drawn = self.resident.generation, sample, items
        return sample, items

    def _ranked(
        self, top: TopK, sample: tuple[RowNumbers, Float[np.ndarray, " s"]] | None = None, *, exact: bool = True
    ) -> Ranked:
        """`sample` holds rows and their scores; some of them may be in the pool as well."""
        rows, scores = sample or (top.pool[:0], top.pool_scores[:0])
        return Ranked(
            [self.resident.ids[n] for n in top.rows.tolist()],
            top.scores,
            self.resident.embedding[torch.from_numpy(top.rows)].uncertainty(),
            top.pool_scores,
            scores[~np.isin(rows, top.pool)],
            top.searched,
            exact,
        )
