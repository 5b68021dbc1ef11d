"""Tuning: the least effort with which the ANN index finds what an exact search would.

Recall@10 is measured against exact search; the cheapest effort that reaches the target is stored with the index.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from pcme.core.checks import require
from pcme.core.progress import Progress
from pcme.core.random import numpy_stream
from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError, FormatError
from pcme.index.ann import AnnIndex
from pcme.index.approximate import Approximate, Effort
from pcme.index.queries import EncodedQuery, Request
from pcme.index.rows import embedding_of
from pcme.index.settings import Settings
from pcme.index.store import Store

T = TypeVar("T")

DEPTH = 10
"""The k of recall@k."""
PROBES = (5, 7, 10, 14, 20, 28, 40, 57, 80, 113, 160, 226, 320, 453, 640, 905, 1280)
SHORTLISTS = (50, 100, 200, 400, 800, 1600)
LEAST = 4096
"""Fewer items than this need no ANN index."""
FITTED = 1024
"""Queries that a density lift is fitted on, at most, and a quarter of the items."""
MEASURED = 100
"""Queries on which recall is measured."""
TIMED = 30
"""Queries on which an effort is timed."""


@dataclass(frozen=True)
class Trial:
    """The recall of an effort, and its speed."""

    effort: Effort
    recall: float
    milliseconds: float
    """The median time per query, once encoded."""


@dataclass(frozen=True)
class Tuning:
    """The effort that an index searches with, and how it was chosen."""

    chosen: Trial
    target: float
    exact_milliseconds: float
    rows: int
    queries: int
    trials: tuple[Trial, ...]

    @property
    def reached(self) -> bool:
        """Whether any effort had the target recall."""
        return self.chosen.recall >= self.target

    @property
    def worthwhile(self) -> bool:
        """Whether it is also faster than exact search; else searches stay exact."""
        return self.reached and self.chosen.milliseconds < self.exact_milliseconds


_ADAPTER = TypeAdapter(Tuning)


def tuning_in(store: Store) -> Tuning | None:
    """The tuning of the version that is read; None where there is none."""
    stored = store.notes().get("tuning")
    try:
        return _ADAPTER.validate_json(stored) if stored else None
    except ValidationError as error:
        raise FormatError(f"{store.uri}: its tuning is damaged. Tune the index again.") from error


def tune(
    store: Store,
    settings: Settings,
    queries: Embedding | None,
    true_ids: Callable[[EncodedQuery], list[str]],
    target: float,
    progress: Progress,
) -> Tuning:
    """Fit a lift where the score needs one, build the ANN index, measure, and store the best.

    Without `queries`, items stand in for them: captions, if there are any.
    """
    require("target", 0 < target <= 1, "a recall in (0, 1]", target)
    store.refresh()
    rows, ann = store.count(), settings.score.ann(settings.dim)
    if rows < LEAST or ann is None:
        raise ConfigError(
            f'{store.uri}: cannot be tuned, got {rows:,} items ranked by "{settings.score.name}". It needs {LEAST:,} '
            "items and a score that is a distance or a density; until then every search is exact."
        )
    if queries is None:
        captions = "kind = 'caption'"
        queries = _sample(store, FITTED, captions if store.count(captions) else None)
    if ann.width is None:
        items = _sample(store, 4 * FITTED)
        assert isinstance(items, Gaussian)
        assert isinstance(queries, Gaussian)
        lift = ann.fit(items, queries)
        with store.writing():
            store.note(tuning="")  # until the vectors are there, searches are exact
            AnnIndex(store).replace_vectors(lift)
    approximate = Approximate(settings, store)
    encoded = [EncodedQuery(queries[n]) for n in range(min(MEASURED, len(queries)))]
    true_ids(encoded[0])  # loads the embeddings into memory
    truth, exact_milliseconds = _time(true_ids, encoded)
    with store.writing():
        AnnIndex(store).build(_partitions(rows), approximate.lift.codes)
    trials = _trials(approximate, encoded, truth, target, progress)
    tuning = Tuning(best_of(trials, target), target, exact_milliseconds, rows, len(encoded), tuple(trials))
    with store.writing():
        store.note(tuning=_ADAPTER.dump_json(tuning).decode())
    return tuning


def compact(store: Store, settings: Settings) -> None:
    """Merge fragments, reclaim deleted space, and rebuild the ANN index as it was tuned.

    The engine's own update merges partitions that it takes for small: the tuned effort then finds far less.
    """
    with store.writing():
        store.refresh()
        tuning = tuning_in(store)
        AnnIndex(store).drop()
        store.optimise()
        rows = store.count()
        if tuning is None or rows < LEAST:  # the engine then scans every vector
            return
        partitions = min(_partitions(tuning.rows), _partitions(rows))
        AnnIndex(store).build(partitions, Approximate(settings, store).lift.codes)


def best_of(trials: Sequence[Trial], target: float) -> Trial:
    """The fastest trial that reaches the target, or the one with the highest recall."""
    enough = [trial for trial in trials if trial.recall >= target]
    return min(enough, key=lambda trial: trial.milliseconds) if enough else max(trials, key=lambda trial: trial.recall)


def _partitions(rows: int) -> int:
    """The number of partitions: the power of two nearest to the root of the number of rows.

    >>> _partitions(1_000_000)
    1024
    """
    return int(2 ** round(np.log2(max(rows, 4)) / 2))


def _sample(store: Store, count: int, where: str | None = None) -> Embedding:
    """Some items, drawn evenly, in the order drawn."""
    every = store.read(["seq"], where)["seq"].to_numpy()
    drawn = numpy_stream(0, "sample").choice(every, min(count, len(every)), replace=False)
    return embedding_of(store.embeddings(drawn).take(np.argsort(np.argsort(drawn))))


def _trials(
    approximate: Approximate, queries: list[EncodedQuery], truth: list[list[str]], target: float, progress: Progress
) -> list[Trial]:
    """For every length of shortlist the fewest probes that reach the target, timed; where none does, the nearest.

    They must reach it with a standard error to spare: the best of many trials on some queries is worse on others.
    Proposals come best first, so one search with the longest list serves all shorter ones.
    """
    most = _partitions(approximate.store.count())
    probes = [p for p in PROBES if p < most] + [most]
    measured = []
    for done, count in enumerate(probes, start=1):
        measured.append(_recalls(approximate, queries, truth, count))
        progress("efforts", done, len(probes))
    by_query = np.array(measured)  # [probes, queries, shortlists]
    recalls, error = by_query.mean(1), by_query.std(1) / np.sqrt(len(queries))
    enough = recalls - error >= target
    trials = []
    for n, shortlist in enumerate(SHORTLISTS):
        if enough.any() and not enough[:, n].any():
            continue
        best = int(np.argmax(enough[:, n] if enough.any() else recalls[:, n]))
        effort = Effort(probes[best], shortlist)
        _, milliseconds = _time(partial(approximate.search, effort=effort, request=Request(DEPTH)), queries[:TIMED])
        trials.append(Trial(effort, float(recalls[best, n]), milliseconds))
    return trials


def _recalls(
    approximate: Approximate, queries: list[EncodedQuery], truth: list[list[str]], probes: int
) -> list[list[float]]:
    """For each query, the recall of every length of shortlist."""
    recalls = []
    for query, best in zip(queries, truth, strict=True):
        (embedding,) = query.proposals()
        effort = Effort(probes, SHORTLISTS[-1])
        ids = approximate.nearest(embedding, effort, ["id"])["id"].to_pylist()
        rank_of = {name: rank for rank, name in enumerate(ids)}
        ranks = np.array([rank_of.get(name, SHORTLISTS[-1]) for name in best])
        recalls.append([float((ranks < length).mean()) for length in SHORTLISTS])
    return recalls


def _time(search: Callable[[EncodedQuery], T], queries: Sequence[EncodedQuery]) -> tuple[list[T], float]:
    """(the result of each search, their median time in milliseconds)."""
    results, times = [], []
    for query in queries:
        begin = time.perf_counter()
        results.append(search(query))
        times.append(1e3 * (time.perf_counter() - begin))
    return results, float(np.median(times))
