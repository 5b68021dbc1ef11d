"""Tuning: the least effort with which the ANN index finds what an exact search would.

Recall@10 is measured on queries whose true answer an exact search gives. The cheapest effort that
reaches the target is stored with the index.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from pcme.core.progress import Progress, silent
from pcme.core.random import numpy_stream
from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError, FormatError
from pcme.index.ann import AnnIndex
from pcme.index.approximate import Approximate, Effort
from pcme.index.queries import EncodedQuery, Request
from pcme.index.rows import embedding_of
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.scores.lifts import Ann, DensityLift

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
    """The recall of an effort, and its time per query once encoded."""

    effort: Effort
    recall: float
    milliseconds: float


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

    def to_json(self) -> str:
        """JSON, to be stored with the index."""
        return _ADAPTER.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str, where: str) -> "Tuning":
        """Read what `to_json` wrote."""
        try:
            return _ADAPTER.validate_json(text)
        except ValidationError as error:
            raise FormatError(f"{where}: its tuning is damaged. Tune the index again.") from error


_ADAPTER = TypeAdapter(Tuning)


def tuning_in(store: Store) -> Tuning | None:
    """The tuning of the version that is read; None where there is none."""
    stored = store.notes().get("tuning")
    return Tuning.from_json(stored, store.uri) if stored else None


def require_tunable(where: str, rows: int, settings: Settings, target: float) -> None:
    """Refuse an index that has nothing to tune, and a target that is not a recall."""
    if not 0 < target <= 1:
        raise ConfigError(f"target: a recall must be in (0, 1], got {target}.")
    if rows < LEAST or settings.score.ann(settings.dim) is None:
        raise ConfigError(
            f'{where}: cannot be tuned, got {rows:,} items ranked by "{settings.score.name}". It '
            f"needs {LEAST:,} items and a score that is a distance or a density; until then every "
            "search is exact."
        )


def tune(
    store: Store,
    settings: Settings,
    queries: Embedding,
    true_ids: Callable[[EncodedQuery], list[str]],
    *,
    target: float,
    progress: Progress = silent,
) -> Tuning:
    """Fit a lift where the score needs one, build the ANN index, measure, and store the best."""
    ann = settings.score.ann(settings.dim)
    if ann is not None and ann.width is None:
        lift = _fit_lift(ann, store, queries)
        with store.writing():
            store.note(tuning="")  # until the vectors are there, searches are exact
            AnnIndex(store).replace_vectors(lift)
    approximate = Approximate(settings, store)
    encoded = [EncodedQuery(queries[n]) for n in range(min(MEASURED, len(queries)))]
    true_ids(encoded[0])  # loads the embeddings into memory
    truth, exact_milliseconds = _time(true_ids, encoded)
    rows = store.count()
    with store.writing():
        AnnIndex(store).build(_partitions(rows), approximate.lift.codes)
    trials = _trials(approximate, encoded, truth, target=target, rows=rows, progress=progress)
    tuning = Tuning(best_of(trials, target), target, exact_milliseconds, rows, len(encoded), tuple(trials))
    with store.writing():
        store.note(tuning=tuning.to_json())
    return tuning


def compact(store: Store, settings: Settings) -> None:
    """Merge fragments, reclaim deleted space, and rebuild the ANN index as it was tuned.

    The engine's own update merges partitions that it takes for small, and the tuned effort then
    finds far less (tests/index/test_tuning.py).
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


def stand_ins(store: Store) -> Embedding:
    """Items in place of queries: captions, if there are any."""
    items = _sample(store, FITTED, "kind = 'caption'") or _sample(store, FITTED)
    assert items is not None  # there are enough items to tune
    return items


def best_of(trials: Sequence[Trial], target: float) -> Trial:
    """The fastest trial that reaches the target, or the one with the highest recall."""
    enough = [trial for trial in trials if trial.recall >= target]
    if enough:
        return min(enough, key=lambda trial: trial.milliseconds)
    return max(trials, key=lambda trial: trial.recall)


def _partitions(rows: int) -> int:
    """As many partitions as each has items, to the nearest power of two.

    >>> _partitions(1_000_000)
    1024
    """
    return int(2 ** round(np.log2(max(rows, 4)) / 2))


def _sample(store: Store, count: int, where: str | None = None) -> Embedding | None:
    """Some items, drawn evenly, in the order drawn; None where there are none."""
    every = store.read(["seq"], where)["seq"].to_numpy()
    if not len(every):
        return None
    drawn = numpy_stream(0, "sample").choice(every, min(count, len(every)), replace=False)
    return embedding_of(store.embeddings(drawn).take(np.argsort(np.argsort(drawn))))


def _fit_lift(ann: Ann, store: Store, queries: Embedding) -> DensityLift:
    """The lift that keeps the most of what these queries find among these items."""
    items = _sample(store, 4 * FITTED)
    assert isinstance(items, Gaussian)
    assert isinstance(queries, Gaussian)
    return ann.fit(items, queries)


def _trials(
    approximate: Approximate,
    queries: Sequence[EncodedQuery],
    truth: Sequence[Sequence[str]],
    *,
    target: float,
    rows: int,
    progress: Progress,
) -> list[Trial]:
    """For every length of shortlist the fewest probes that reach the target, timed.

    They must reach it with a standard error to spare: the best of many trials on some queries is
    worse on others. Where none does, the one that comes nearest. Proposals come best first, so one
    search with the longest list serves all shorter ones.
    """
    most = _partitions(rows)
    probes = [p for p in PROBES if p < most] + [most]
    measured = []
    for done, count in enumerate(probes, start=1):
        measured.append(_recalls(approximate, queries, truth, count))
        progress("efforts", done, len(probes))
    each = np.array(measured)  # [probes, queries, shortlists]
    recalls, error = each.mean(1), each.std(1) / np.sqrt(len(queries))
    enough = recalls - error >= target
    picked = [
        (int(np.argmax(enough[:, n] if enough[:, n].any() else recalls[:, n])), n)
        for n in range(len(SHORTLISTS))
        if enough[:, n].any() or not enough.any()
    ]
    trials = []
    for p, n in picked:
        effort = Effort(probes[p], SHORTLISTS[n])
        search = partial(approximate.search, effort=effort, request=Request(DEPTH))
        _, milliseconds = _time(search, queries[:TIMED])
        trials.append(Trial(effort, float(recalls[p, n]), milliseconds))
    return trials


def _recalls(
    approximate: Approximate, queries: Sequence[EncodedQuery], truth: Sequence[Sequence[str]], probes: int
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
