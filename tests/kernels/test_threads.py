"""The pool that drives compiled loops."""

import threading

import pytest

from pcme.kernels.threads import run_each, run_slices


@pytest.mark.parametrize(("rows", "threads"), [(0, 2), (1, 3), (10, 1), (10, 3), (10, 20)])
def test_slices_cover_the_rows_once(rows, threads):
    slices = []
    run_slices(lambda a, b: slices.append(range(a, b)), rows, threads)
    assert sorted(row for part in slices for row in part) == list(range(rows))
    assert len(slices) == max(1, min(rows, threads))
    assert max(map(len, slices)) - min(map(len, slices)) <= 1


def test_the_first_slice_is_the_callers_and_the_others_the_pools():
    names = {}
    run_slices(lambda a, b: names.setdefault(a, threading.current_thread().name), 10, 2)
    assert names[0] == threading.current_thread().name
    assert names[5].startswith("pcme-kernels")


def test_results_come_in_the_order_of_the_arguments():
    assert run_each(lambda n: n * n, range(50)) == [n * n for n in range(50)]


@pytest.mark.parametrize("run", [lambda kernel: run_slices(kernel, 10, 2), lambda kernel: run_each(kernel, [5])])
def test_an_error_in_a_worker_reaches_the_caller(run):
    def kernel(start, stop=0):
        if start:
            raise RuntimeError("worker")

    with pytest.raises(RuntimeError, match="worker"):
        run(kernel)
