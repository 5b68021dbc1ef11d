"""Rankings against sorted() with the tie rule written out."""

import threading
import tracemalloc
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pcme.errors import ConfigError, DataError, ShapeError
from pcme.retrieval import blocks
from pcme.retrieval import ranking as module
from pcme.retrieval.blocks import each_block, read_rows
from pcme.retrieval.ranking import Ranking, as_scores, top_ids
from tests.retrieval.worlds import ORDER, SCORES, ordered

quick = settings(max_examples=30, deadline=None)


def floats(width):
    """Few distinct values, so that ties are common, and every kind that is special in binary."""
    special = [0.0, -0.0, -np.inf, 1e-40, -1e-40, 3e38, -3e38, 1.0, np.nextafter(np.float32(1), 2)]
    simple = st.sampled_from([float(np.float32(value)) for value in special])
    return simple | st.floats(-10, 10, width=width)


@st.composite
def score_matrices(draw, dtype=None):
    dtype = dtype or draw(st.sampled_from([np.float32, np.float64]))
    shape = hnp.array_shapes(min_dims=2, max_dims=2, max_side=12)
    return draw(hnp.arrays(dtype, shape, elements=floats(8 * np.dtype(dtype).itemsize)))


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_by_hand(dtype):
    ranking = Ranking.from_scores(torch.tensor(SCORES, dtype=dtype))
    assert ranking.ids.tolist() == ORDER
    assert ranking.ids.dtype == torch.int64
    assert (len(ranking), ranking.depth, ranking.gallery_size) == (4, 8, 8)
    expected = torch.tensor(SCORES, dtype=dtype).gather(1, torch.tensor(ORDER))
    assert torch.equal(ranking.scores.to(dtype), expected)


def test_lists_integers_and_gradients_are_scores_too():
    assert Ranking.from_scores(SCORES).ids.tolist() == ORDER
    assert Ranking.from_scores([[1, 3, 3, 2]]).ids.tolist() == [[1, 2, 3, 0]]
    assert Ranking.from_scores([[True, False, True]]).ids.tolist() == [[0, 2, 1]]
    assert Ranking.from_scores(torch.tensor(SCORES, requires_grad=True)).ids.tolist() == ORDER


@quick
@given(score_matrices(), st.data())
def test_the_order_is_by_score_then_id(scores, data):
    depth = data.draw(st.integers(1, scores.shape[1]))
    ranking = Ranking.from_scores(scores, k=depth)
    assert ranking.ids.tolist() == [ordered(row)[:depth] for row in scores.tolist()]
    np.testing.assert_array_equal(ranking.scores, np.take_along_axis(scores, ranking.ids.numpy(), axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("depth", [1, 7, 700, 1300])
def test_blocks_threads_and_layout_change_nothing(monkeypatch, two_threads, dtype, depth):
    scores = np.random.default_rng(0).integers(0, 300, (23, 1300)).astype(dtype)
    expected = [ordered(row)[:depth] for row in scores.tolist()]
    layouts = [scores, np.asfortranarray(scores), np.repeat(scores, 2, axis=1)[:, ::2]]
    for block_bytes in (1, 24 * 1300 * 4, 2**24):
        monkeypatch.setattr(blocks, "BLOCK_BYTES", block_bytes)
        monkeypatch.setattr(module, "_KEYS_AT_ONCE", max(1, block_bytes // 16))
        for layout in layouts:
            assert Ranking.from_scores(layout, k=depth).ids.tolist() == expected
    transposed = torch.tensor(scores.T.copy()).T
    assert Ranking.from_scores(transposed, k=depth).ids.tolist() == expected


def test_temporaries_stay_small():
    scores = np.random.default_rng(0).random((3000, 3000), np.float32)  # 36 MB, keys of 72 MB
    tracemalloc.start()
    Ranking.from_scores(scores, k=5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * torch.get_num_threads() * blocks.BLOCK_BYTES


def test_rows_of_a_transposed_matrix():
    matrix = np.arange(4 * 1100.0).reshape(1100, 4).T
    block = read_rows(matrix, slice(1, 3))
    assert block.flags.c_contiguous
    np.testing.assert_array_equal(block, matrix[1:3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_depth_of_a_long_row(dtype):
    """A selection that is off by one is right by luck most of the time, so try many."""
    row = np.random.default_rng(1).integers(0, 900, (1, 2000)).astype(dtype)
    full = ordered(row[0].tolist())
    for depth in range(1, 2001):
        assert top_ids(row, depth)[0].tolist() == full[:depth]


def test_every_row_is_visited_once(two_threads, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 30)
    seen, names = [], set()

    def work(rows):
        seen.extend(range(rows.start, rows.stop))
        names.add(threading.current_thread().name)

    each_block(work, 10, row_bytes=10)
    assert sorted(seen) == list(range(10))
    assert threading.current_thread().name not in names
    names.clear()
    each_block(work, 10, row_bytes=blocks.MEMORY_BUDGET)  # two such rows would exceed the budget
    assert names == {threading.current_thread().name}


def test_a_failing_block_is_heard(two_threads, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1)

    def work(rows):
        if rows.start == 3:
            raise DataError("block 3")

    with pytest.raises(DataError, match="block 3"):
        each_block(work, 5, row_bytes=1)


def test_from_ids_and_scores():
    ids, scores = np.array([[2, 0]], np.int32), np.array([[0.5, 0.5]], np.float32)
    ids.flags.writeable = False
    ranking = Ranking(ids, scores)
    assert ranking.ids.dtype == torch.int64
    assert ranking.scores.dtype == torch.float32
    assert ranking.gallery_size is None
    assert repr(ranking) == "Ranking(1 queries, top 2 of an unknown number)"
    assert replace(ranking, gallery_size=3).gallery_size == 3
    with pytest.raises(FrozenInstanceError):
        ranking.gallery_size = 3
    lists = Ranking([[2, 0]], [[3, 1]], gallery_size=3)
    assert lists.scores.dtype == torch.float64
    graph = Ranking(torch.tensor([[0]]), torch.tensor([[1.0]], requires_grad=True))
    assert not graph.scores.requires_grad


@pytest.mark.parametrize("rows", [slice(1, 3), slice(None, None, -1), slice(0, 4, 2), [2, 0, 2], [-1], np.array([3])])
def test_rows_of_whole_and_joined_rankings(rows):
    whole = Ranking.from_scores(SCORES, k=3)
    part, joined = whole[rows], Ranking.cat([whole[:1], whole[1:3], whole[3:]])[rows]
    for found in (part, joined):
        assert found.ids.tolist() == np.array(ORDER)[rows][:, :3].tolist()
        assert found.scores.tolist() == np.take_along_axis(np.array(SCORES)[rows], found.ids.numpy(), 1).tolist()
        assert found.gallery_size == 8


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_scores_that_cannot_be_ranked(bad, dtype):
    scores = np.zeros((3, 4), dtype)
    scores[1, 2:], scores[2, 0] = (bad, -np.inf), bad
    with pytest.raises(DataError, match=rf"NaN or \+inf, got {bad} at row 1, column 2"):
        Ranking.from_scores(scores)


@pytest.mark.parametrize(
    ("error", "message", "scores"),
    [
        (ShapeError, r"none of size 0, got shape \(0, 3\)", np.ones((0, 3))),
        (ShapeError, r"none of size 0, got shape \(3, 0\)", np.ones((3, 0))),
        (ShapeError, r"two dimensions.* got shape \(3,\)", np.ones(3)),
        (ShapeError, r"two dimensions.* got shape \(1, 2, 3\)", torch.ones(1, 2, 3)),
        (DataError, "scores: must be numbers, got <U1", [["a"]]),
        (DataError, "scores: must be numbers, got complex128", [[1j]]),
    ],
)
def test_bad_scores(error, message, scores):
    with pytest.raises(error, match=message):
        as_scores(scores)


@pytest.mark.parametrize(
    ("error", "message", "ids", "scores", "size"),
    [
        (ShapeError, r"two dimensions.* got shape \(2,\)", [0, 1], [1.0, 0.0], None),
        (ShapeError, r"none of size 0, got shape \(1, 0\)", np.ones((1, 0), int), [[]], None),
        (ShapeError, r"ids \(1, 2\) and scores \(1, 1\)", [[0, 1]], [[1.0]], None),
        (DataError, r"integers, got torch\.float64", [[0.0]], [[1.0]], None),
        (DataError, r"integers, got torch\.bool", [[True]], [[1.0]], None),
        (DataError, r"from 0 to 1, .* from -1 to 1", [[-1, 1]], [[1.0, 0.0]], None),
        (DataError, r"from 0 to 2, .* from 0 to 3", [[0, 3]], [[1.0, 0.0]], 3),
        (DataError, r"distinct .* to 1, got 3 per query", [[0, 1, 0]], [[1.0, 0.0, 0.0]], 2),
        (DataError, "must fall from left to right", [[0, 1]], [[0.0, 1.0]], None),
        (DataError, r"without NaN or \+inf", [[0, 1]], [[1.0, np.nan]], None),
        (DataError, r"without NaN or \+inf", [[0]], [[np.nan]], None),
        (DataError, r"without NaN or \+inf", [[0, 1]], [[np.inf, 0.0]], None),
    ],
)
def test_bad_rankings(error, message, ids, scores, size):
    with pytest.raises(error, match=message):
        Ranking(ids, scores, gallery_size=size)


def test_what_cannot_be_cut_indexed_or_joined():
    for k in (0, -1):
        with pytest.raises(ConfigError, match=f"k: must be at least 1, got {k}"):
            Ranking.from_scores(SCORES, k=k)
    with pytest.raises(ShapeError, match="two dimensions"):
        Ranking.from_scores(SCORES)[np.array(1)]
    one = Ranking.from_scores(SCORES, k=2)
    for other in (Ranking.from_scores(SCORES, k=3), Ranking(one.ids, one.scores)):
        with pytest.raises(ShapeError, match=r"one depth and one gallery .* got .*2, 8"):
            Ranking.cat([one, other])
    with pytest.raises(ShapeError, match="one depth and one gallery"):
        Ranking.cat([])
