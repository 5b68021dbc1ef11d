"""Tuner: an approximate index that is known to be good enough, and stays so."""

import statistics
import time
from collections.abc import Callable

from pcme.core.progress import Progress, silent
from pcme.embedding import Embedding
from pcme.index.approximate import Approximate, lift_in
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.index.tuning import (
    LEAST,
    MEASURED,
    Tuning,
    best_of,
    fitted,
    partitions_for,
    trials,
    tuning_in,
)
from pcme.index.wanted import Wanted
from pcme.index.writer import Writer
from pcme.scores.densities import DensityScore

__all__ = ["compacted", "tuned"]


def tuned(
    writer: Writer,
    asked: Embedding,
    true_ids: Callable[[Wanted], list[str]],
    *,
    target: float,
    progress: Progress = silent,
) -> Tuning:
    """Fit a lift where one is needed, build, measure against `true_ids`, and keep what is best."""
    store, settings = writer.store, writer.settings
    score = settings.score.create()
    if isinstance(score, DensityScore):
        writer.refit(fitted(score, store, asked))
    lift = lift_in(settings, store)
    assert lift is not None  # the score has one: it was asked before
    wanted = [Wanted(asked[n]) for n in range(min(MEASURED, len(asked)))]
    truth, took = _timed(wanted, true_ids)
    rows = store.count()
    with store.writing():
        store.build_ann(partitions_for(rows), lift.codes)
    engine = Approximate(settings, store, lift)
    found = trials(engine, wanted, truth, target=target, rows=rows, progress=progress)
    tuning = Tuning(best_of(found, target), target, took, rows, len(wanted), tuple(found))
    with store.writing():
        store.note(tuning=tuning.to_json())
    return tuning


def compacted(store: Store, settings: Settings) -> None:
    """Join what many writes left, and build the approximate index anew, as it was tuned.

    The engine's own update joins partitions that it takes for small, and the effort that was tuned
    then finds far less (tests/index/test_tuning.py).
    """
    with store.writing():
        store.version()
        tuning = tuning_in(store)
        store.drop_ann()
        store.optimise()
        rows = store.count()
        if tuning is None or rows < LEAST:  # the engine then looks at every vector
            return
        lift = lift_in(settings, store)
        assert lift is not None  # it was tuned
        store.build_ann(min(partitions_for(tuning.rows), partitions_for(rows)), lift.codes)


def _timed(
    wanted: list[Wanted], true_ids: Callable[[Wanted], list[str]]
) -> tuple[list[list[str]], float]:
    """(the true answers, the median time of finding one in milliseconds)."""
    times, truth = [], []
    true_ids(wanted[0])  # loads what is then in memory
    for one in wanted:
        begin = time.perf_counter()
        truth.append(true_ids(one))
        times.append(1e3 * (time.perf_counter() - begin))
    return truth, statistics.median(times)
