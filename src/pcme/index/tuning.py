"""Tuning: how hard the engine must look so that it finds what a search through everything would.

Recall@10 is measured on queries whose true answer is known from scoring everything; the cheapest
effort that reaches the target is kept with the index.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import TypeAdapter, ValidationError

from pcme.core.progress import Progress, silent
from pcme.core.random import numpy_stream
from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError, FormatError
from pcme.index.approximate import Approximate, Effort
from pcme.index.lifts import DensityLift, width_of
from pcme.index.rows import embedding_of
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.index.wanted import Wanted
from pcme.scores.densities import DensityScore

__all__ = ["DEPTH", "MEASURED", "Trial", "Tuning", "best_of", "fitted", "partitions_for"]
__all__ += ["require_tunable", "sampled", "stand_ins", "trials", "tuning_in"]


DEPTH = 10
"""The k of recall@k."""
PROBES = (5, 7, 10, 14, 20, 28, 40, 57, 80, 113, 160, 226, 320, 453, 640, 905, 1280)
SHORTLISTS = (50, 100, 200, 400, 800, 1600)
LEAST = 4096
"""Items below which there is nothing to tune."""
FITTED = 1024
"""Queries at the most that a density lift is fitted on, and a quarter of the items."""
MEASURED = 100
"""Queries by which recall is measured."""
TIMED = 30
"""Queries by which an effort is timed."""


@dataclass(frozen=True)
class Trial:
    """What an effort gives, and what a query costs with it, once encoded."""

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
        """Whether any effort had the recall that was asked for."""
        return self.chosen.recall >= self.target

    @property
    def worthwhile(self) -> bool:
        """Whether it is also faster than to search everything; else searches stay exact."""
        return self.reached and self.chosen.milliseconds < self.exact_milliseconds

    def to_json(self) -> str:
        """As JSON, to be kept with the index."""
        return _ADAPTER.dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str, where: str) -> "Tuning":
        """What `to_json` wrote."""
        try:
            return _ADAPTER.validate_json(text)
        except ValidationError as error:
            raise FormatError(f"{where}: its tuning is damaged - tune it again") from error


_ADAPTER = TypeAdapter(Tuning)


def tuning_in(store: Store) -> Tuning | None:
    """How the version that is read was tuned; None where it was not."""
    stored = store.notes().get("tuning")
    return Tuning.from_json(stored, store.uri) if stored else None


def partitions_for(rows: int) -> int:
    """As many partitions as each has items, in the nearest power of two.

    >>> partitions_for(1_000_000)
    1024
    """
    return int(2 ** round(np.log2(max(rows, 4)) / 2))


def require_tunable(where: str, rows: int, settings: Settings, target: float) -> None:
    """An error that says why an index has nothing to tune, or not to this recall."""
    if not 0 < target <= 1:
        raise ConfigError(f"a recall is above 0 and at most 1 - got {target}")
    score = settings.score.create()
    if rows < LEAST or not (width_of(settings) or isinstance(score, DensityScore)):
        raise ConfigError(
            f'{where} cannot be tuned - it has {rows:,} items, ranked by "{settings.score.kind}" - '
            f"{LEAST:,} are the least, and the score must be a distance or a density; until then "
            "every search is exact"
        )


def sampled(store: Store, count: int, where: str | None = None) -> Embedding | None:
    """Some items, drawn evenly; None where there are none."""
    every = store.read(["seq"], where)["seq"].to_numpy()
    if not len(every):
        return None
    some = numpy_stream(0, "sample").choice(every, min(count, len(every)), replace=False)
    columns = [name for name in ("seq", "mean", "log_sigma") if name in store.schema.names]
    found = store.read(columns, f"seq IN ({', '.join(map(str, some.tolist()))})")
    by_seq = np.argsort(found["seq"].to_numpy())
    return embedding_of(found.take(by_seq[np.argsort(np.argsort(some))]))  # in the order drawn


def stand_ins(store: Store) -> Embedding:
    """Items in the place of queries: captions, if there are any."""
    found = sampled(store, FITTED, "kind = 'caption'")
    found = sampled(store, FITTED) if found is None else found
    assert found is not None  # there are enough items to tune
    return found


def fitted(score: DensityScore, store: Store, queries: Embedding) -> DensityLift:
    """The lift that keeps the most of what these queries find in these items."""
    items = sampled(store, 4 * FITTED)
    assert isinstance(items, Gaussian)
    assert isinstance(queries, Gaussian)
    return DensityLift.fitted(score, items, queries)


def trials(
    engine: Approximate,
    queries: Sequence[Wanted],
    truth: Sequence[Sequence[str]],
    *,
    target: float,
    rows: int,
    progress: Progress = silent,
) -> list[Trial]:
    """For every length of shortlist the fewest probes that reach the target, timed.

    They must reach it with a standard error to spare, for the best of many trials on some queries
    is worse on others. Where none does, the one that comes nearest. Proposals come best first, so
    that one search with the longest list tells of all shorter ones.
    """
    most = partitions_for(rows)
    probes = [p for p in PROBES if p < most] + [most]
    measured = []
    for done, number in enumerate(probes, start=1):
        measured.append(_recalls(engine, queries, truth, number))
        progress("efforts", done, len(probes))
    each = np.array(measured)  # [probes, queries, shortlists]
    recalls, error = each.mean(1), each.std(1) / np.sqrt(len(queries))
    enough = recalls - error >= target
    picked = [
        (int(np.argmax(enough[:, n] if enough[:, n].any() else recalls[:, n])), n)
        for n in range(len(SHORTLISTS))
        if enough[:, n].any() or not enough.any()
    ]
    efforts = [(Effort(probes[p], SHORTLISTS[n]), float(recalls[p, n])) for p, n in picked]
    return [Trial(one, recall, _timed(engine, queries, one)) for one, recall in efforts]


def best_of(found: Sequence[Trial], target: float) -> Trial:
    """The fastest trial that reaches the target, or the one with the highest recall."""
    enough = [trial for trial in found if trial.recall >= target]
    if enough:
        return min(enough, key=lambda trial: trial.milliseconds)
    return max(found, key=lambda trial: trial.recall)


def _recalls(
    engine: Approximate, queries: Sequence[Wanted], truth: Sequence[Sequence[str]], probes: int
) -> list[list[float]]:
    """For each query, the recall of every length of shortlist."""
    found = []
    for query, best in zip(queries, truth, strict=True):
        (one,) = query.proposals()
        ids = engine.proposals(one, Effort(probes, SHORTLISTS[-1]), ["id"])["id"].to_pylist()
        places = {name: n for n, name in enumerate(ids)}
        ranks = np.array([places.get(name, SHORTLISTS[-1]) for name in best])
        found.append([float((ranks < length).mean()) for length in SHORTLISTS])
    return found


def _timed(engine: Approximate, queries: Sequence[Wanted], effort: Effort) -> float:
    """The median time of a search, in milliseconds."""
    times = []
    for query in queries[:TIMED]:
        begin = time.perf_counter()
        engine.answer(query, DEPTH, effort)
        times.append(1e3 * (time.perf_counter() - begin))
    return float(np.median(times))
