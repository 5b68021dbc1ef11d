import gc
import sys
import threading
import time

import pytest

from pcme.data.loading.prefetch import AHEAD, ordered
from pcme.errors import ConfigError


@pytest.mark.parametrize("workers", [0, 1, 2, 7])
def test_results_come_in_the_order_of_the_tasks(workers):
    def slow_first(task):
        time.sleep(0.002 * (5 - task % 5))
        return task * task

    assert list(ordered(slow_first, range(23), workers=workers)) == [i * i for i in range(23)]


def test_threads_work_at_the_same_time():
    meeting = threading.Barrier(3, timeout=10)
    assert len(list(ordered(lambda _: meeting.wait(), range(3), workers=3))) == 3


def test_no_more_is_begun_than_the_bound_and_stopping_leaves_no_thread():
    before, begun = threading.active_count(), []
    stream = ordered(lambda task: begun.append(task) or task, iter(range(1000)), workers=2)
    next(stream)
    time.sleep(0.05)
    assert len(begun) <= AHEAD * 2 + 1
    stream.close()
    assert threading.active_count() == before


def test_an_abandoned_stream_may_end_in_its_own_thread(monkeypatch):
    """A cycle of references holds it, and the garbage collector runs in any thread."""
    ignored, dropped, collected = [], threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)

    def collect_later(task):
        if task:
            dropped.wait(10)
            gc.collect()
            collected.set()
        return task

    gc.disable()
    try:
        held = [ordered(collect_later, range(3), workers=1)]
        held.append(held)
        assert next(held[0]) == 0
        del held
        dropped.set()
        assert collected.wait(10)
    finally:
        gc.enable()
    assert ignored == []


def test_an_error_appears_where_its_result_would_have():
    def fails_at_three(task):
        if task == 3:
            raise RuntimeError("three")
        return task

    stream = ordered(fails_at_three, range(10), workers=2)
    assert [next(stream) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(RuntimeError, match="three"):
        next(stream)


def test_a_negative_number_of_workers_is_refused():
    with pytest.raises(ConfigError, match="workers"):
        ordered(str, [], workers=-1)
