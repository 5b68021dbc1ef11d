"""Search in memory: exact, by a scan with a proof; combined queries by scoring everything."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float32, Int64

from pcme.core.random import numpy_stream
from pcme.embedding import Embedding, joined
from pcme.index.queries import EncodedQuery, Ranked
from pcme.index.resident import Resident
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.scores.combine import Calibrate
from pcme.scores.gallery import TopK, best_first
from pcme.scores.scan import SCORED

__all__ = ["InMemory", "uncertainties"]

SAMPLE = 2048
"""Items beyond the candidates by which the number of matches is estimated."""


class InMemory:
    """All embeddings of a store, kept up to date, and the scan that suits the score."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self.settings, self.store = settings, store
        self.resident = Resident(settings)
        self.scan = settings.score.scan(self.resident)
        self._drawn: tuple[int, Int64[np.ndarray, " s"], Embedding] | None = None

    def answers(
        self,
        wanted: list[EncodedQuery],
        k: int,
        *,
        where: str | None = None,
        calibrate: Calibrate | None = None,
    ) -> list[Ranked]:
        """The k best for each; simple queries together, in one scan."""
        self.resident.refresh(self.store)
        rows = self._rows(where)
        simple = [one.embedding for one in wanted if one.embedding is not None]
        answers = iter(self._simple(_joined(simple), k, rows) if simple else ())
        return [
            self._combined(one, k, rows, calibrate) if one.embedding is None else next(answers)
            for one in wanted
        ]

    def _simple(
        self, queries: Embedding, k: int, rows: Int64[np.ndarray, " m"] | None
    ) -> list[Ranked]:
        found = self.scan.top(queries, k, rows)
        others, scores = self._sampled(queries, rows, min(len(one.pool) for one in found))
        return [self._answer(one, others, row) for one, row in zip(found, scores, strict=True)]

    def among(
        self,
        one: EncodedQuery,
        seq: Int64[np.ndarray, " m"],
        k: int,
        *,
        where: str | None = None,
        calibrate: Calibrate | None = None,
    ) -> Ranked:
        """The k best of those that were proposed, known by `seq`."""
        self.resident.refresh(self.store)
        rows, places = self._rows(where), self.resident.places(seq)
        count = len(self.resident) if rows is None else len(rows)
        if one.embedding is None:
            best = self._combined(one, k, places, calibrate)
            some, items = self._some(rows, count)
            rest = one.scores(items, self.settings.score, calibrate)[~np.isin(some, places)]
            return replace(best, sample=rest, searched=count, exact=False)
        found = self.scan.ranked(one.embedding, places, k, count)
        others, scores = self._sampled(one.embedding, rows, len(places))
        return replace(self._answer(found, others, scores[0]), exact=False)

    def _rows(self, where: str | None) -> Int64[np.ndarray, " m"] | None:
        """The places that a filter leaves, ascending; None: all."""
        if where is None:
            return None
        return self.resident.places(self.store.read(["seq"], where)["seq"].to_numpy())

    def _answer(
        self, found: TopK, others: Int64[np.ndarray, " s"], scores: Float32[np.ndarray, " s"]
    ) -> Ranked:
        """`scores` are those of `others`, of which some may have been in the pool anyway."""
        return Ranked(
            [self.resident.ids[n] for n in found.rows.tolist()],
            found.scores,
            uncertainties(self.resident.embedding[torch.from_numpy(found.rows)]),
            found.pool_scores,
            scores[~np.isin(others, found.pool)],
            found.searched,
            exact=True,
        )

    def _sampled(
        self, queries: Embedding, rows: Int64[np.ndarray, " m"] | None, pool: int
    ) -> tuple[Int64[np.ndarray, " s"], Float32[np.ndarray, "q s"]]:
        """Some places, the same ones whenever the index is the same, and their scores."""
        count = len(self.resident) if rows is None else len(rows)
        if count == pool:  # everything is in the pool
            return np.empty(0, np.int64), np.empty((len(queries), 0), np.float32)
        score, (places, items) = self.settings.score, self._some(rows, count)
        if len(queries) == 1:
            return places, score.each(queries, items)[None].numpy()
        return places, score(queries, items).numpy()

    def _some(
        self, rows: Int64[np.ndarray, " m"] | None, count: int
    ) -> tuple[Int64[np.ndarray, " s"], Embedding]:
        """Places drawn evenly, and what is there; of all rows it is kept until they change."""
        if rows is None and self._drawn and self._drawn[0] == self.resident.generation:
            return self._drawn[1:]
        drawn = numpy_stream(0, "others").choice(count, min(count, SAMPLE), replace=False)
        places = drawn if rows is None else rows[drawn]
        items = self.resident.embedding[torch.from_numpy(places)]
        if rows is None:
            self._drawn = self.resident.generation, places, items
        return places, items

    def _combined(
        self,
        one: EncodedQuery,
        k: int,
        rows: Int64[np.ndarray, " m"] | None,
        calibrate: Calibrate | None,
    ) -> Ranked:
        whole = self.resident.embedding
        places = np.arange(len(whole)) if rows is None else rows
        parts = [
            one.scores(
                whole[torch.from_numpy(places[i : i + SCORED])], self.settings.score, calibrate
            )
            for i in range(0, len(places), SCORED)
        ]
        scores = np.concatenate(parts) if parts else np.empty(0)
        order = best_first(scores, lambda n: self.resident.ids[places[n]], k)
        best = places[order]
        return Ranked(
            [self.resident.ids[n] for n in best.tolist()],
            scores[order],
            uncertainties(whole[torch.from_numpy(best)]),
            scores,
            scores[:0],
            len(places),
            exact=True,
        )


def uncertainties(items: Embedding) -> list[float] | None:
    """The geometric mean of σ of each; None for points."""
    values = items.uncertainty()
    return None if values is None else values.tolist()


def _joined(parts: list[Embedding]) -> Embedding:
    return parts[0] if len(parts) == 1 else joined(parts)
