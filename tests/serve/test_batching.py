"""Batching: one pass for what waits together, an answer for each, nothing lost at the end."""

import threading
import time

import pytest

from pcme.serve.batching import Batcher, ClosedError, FullError
from tests.serve.asking import Gate, blocked


@pytest.fixture
def batcher():
    sizes = []
    batcher = Batcher("test", waiting=5, batch=3, observe=sizes.append)
    batcher.sizes = sizes
    yield batcher
    batcher.close()


def double(items):
    return [2 * item for item in items]


def negative(items):
    return [-item for item in items]


def inverse(items):
    return [1 / item for item in items]


def test_a_lone_job_waits_for_nobody(batcher):
    assert batcher.submit(double, 4).result(10) == 8
    assert batcher.sizes == [1]


def test_what_waits_for_equal_work_shares_a_pass_oldest_first(batcher):
    with blocked(batcher):
        futures = [
            batcher.submit(work, item)
            for work, item in ((double, 1), (negative, 2), (double, 3), (double, 4), (double, 5))
        ]
        assert len(batcher) == 5
    assert [future.result(10) for future in futures] == [2, -2, 6, 8, 10]
    assert batcher.sizes[1:] == [3, 1, 1]  # three at most; then the other work, which is older than the fifth


def test_a_pass_waits_for_more_only_while_several_come_at_once():
    sizes, linger = [], 0.3
    batcher = Batcher("lingering", waiting=9, batch=3, linger=linger, observe=sizes.append)
    begin = time.monotonic()
    assert [batcher.submit(double, n).result(10) for n in (1, 2)] == [2, 4]
    assert time.monotonic() - begin < linger  # one at a time: nobody waits
    with blocked(batcher):
        first = [batcher.submit(double, n) for n in (1, 2)]
    assert [future.result(10) for future in first] == [2, 4]
    second = batcher.submit(double, 3)
    time.sleep(linger / 6)
    third = batcher.submit(double, 4)  # comes in time for the same pass
    assert (second.result(10), third.result(10)) == (6, 8)
    begin = time.monotonic()
    full = [batcher.submit(double, n) for n in range(3)]
    assert [future.result(10) for future in full] == [0, 2, 4]
    assert time.monotonic() - begin < linger  # a full pass waits for nobody
    batcher.close()
    assert sizes == [1, 1, 1, 2, 2, 3]


def test_a_further_job_is_refused_when_the_queue_is_full(batcher):
    with blocked(batcher):
        futures = [batcher.submit(double, n) for n in range(5)]
        with pytest.raises(FullError):
            batcher.submit(double, 6)
    assert [future.result(10) for future in futures] == [0, 2, 4, 6, 8]
    assert batcher.submit(double, 6).result(10) == 12


def test_one_fault_spoils_no_other_answer(batcher):
    with blocked(batcher):
        good, bad, other = (batcher.submit(inverse, n) for n in (2, 0, 4))
    assert (good.result(10), other.result(10)) == (0.5, 0.25)
    with pytest.raises(ZeroDivisionError):
        bad.result(10)


def test_a_job_that_nobody_waits_for_is_left_out(batcher):
    seen = []

    def remember(items):
        seen.extend(items)
        return items

    with blocked(batcher):
        first, second = batcher.submit(remember, "first"), batcher.submit(remember, "second")
        assert first.cancel()
    assert second.result(10) == "second"
    assert seen == ["second"]


def test_closing_finishes_what_waits_and_takes_nothing_more():
    batcher, gate = Batcher("ending", waiting=5), Gate()
    held = batcher.submit(gate, "gate")
    waiting = batcher.submit(double, 3)
    assert gate.begun.wait(10)
    closer = threading.Thread(target=batcher.close)
    closer.start()
    while not batcher._closing:
        pass
    with pytest.raises(ClosedError):
        batcher.submit(double, 1)
    assert not waiting.done()
    gate.open.set()
    closer.join(10)
    assert (held.result(0), waiting.result(0), closer.is_alive()) == ("gate", 6, False)
