"""Matches against sets of pairs built by plain loops."""

import tracemalloc
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pcme.errors import ConfigError, DataError, ShapeError
from pcme.retrieval import blocks
from pcme.retrieval.labels import UNSAID, hamming_factors
from pcme.retrieval.matches import Matches

quick = settings(max_examples=30, deadline=None)

KINDS = [lambda x: x, np.asarray, torch.tensor]  # what users hold: lists, arrays, tensors
KIND_NAMES = ["list", "numpy", "torch"]

masks = hnp.arrays(np.bool_, hnp.array_shapes(min_dims=2, max_dims=2, max_side=7))
classes = st.lists(st.integers(-2, 3), min_size=1, max_size=9)


@st.composite
def label_sides(draw):
    width = draw(st.integers(1, 5))
    sides = st.tuples(st.integers(1, 7), st.just(width))
    return tuple(draw(hnp.arrays(np.int64, sides, elements=st.integers(0, 1))) for _ in range(2))


def pairs_of(matches):
    return {(q, int(g)) for q, row in enumerate(matches) for g in row}


@pytest.mark.parametrize("kind", KINDS, ids=KIND_NAMES)
def test_pairs_in_any_order_and_repeated(kind):
    matches = Matches.from_pairs(kind([2, 0, 2, 2, 0]), kind([3, 1, 0, 3, 4]), (4, 5))
    assert pairs_of(matches) == {(0, 1), (0, 4), (2, 0), (2, 3)}
    assert matches.indptr.tolist() == [0, 2, 2, 4, 4]
    assert matches.indices.tolist() == [1, 4, 0, 3]
    assert matches.counts.tolist() == [2, 0, 2, 0]
    assert matches.answerable.tolist() == [True, False, True, False]
    assert len(matches) == 4
    assert repr(matches) == "Matches(4 queries, 5 gallery items, 4 pairs)"


def test_no_pairs_at_all_is_a_relation_too():
    matches = Matches.from_pairs([], [], (2, 3))
    assert not matches.answerable.any()
    assert not matches.dense().any()
    assert Matches.from_pairs([], [], (3, 2)) == matches.T
    assert matches[[1]].shape == (1, 3)


@quick
@given(st.data())
def test_pairs_hold_exactly_what_was_given(data):
    shape = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    pair = st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1))
    given_pairs = data.draw(st.lists(pair, max_size=20))
    matches = Matches.from_pairs([q for q, _ in given_pairs], [g for _, g in given_pairs], shape)
    assert pairs_of(matches) == set(given_pairs)


@quick
@given(classes, classes)
def test_classes_match_where_they_are_equal(queries, gallery):
    expected = {(q, g) for q, a in enumerate(queries) for g, b in enumerate(gallery) if a == b}
    names = [f"class {value}" for value in queries], [f"class {value}" for value in gallery]
    assert pairs_of(Matches.from_classes(queries, gallery)) == expected
    assert pairs_of(Matches.from_classes(*names)) == expected


@pytest.mark.parametrize(
    "kind",
    [
        *KINDS,
        lambda x: torch.tensor(x, dtype=torch.uint8),
        lambda x: np.array([str(value) for value in x], object),
        lambda x: np.array([str(value) for value in x], np.bytes_),
    ],
)
def test_classes_of_every_kind(kind):
    matches = Matches.from_classes(kind([7, 1, 9]), kind([1, 7, 1]))
    assert pairs_of(matches) == {(0, 1), (1, 0), (1, 2)}


def test_large_class_ids_do_not_collide():
    ids = [2**24, 2**24 + 1, 2**60, 2**60 + 1]
    assert Matches.from_classes(ids, ids) == Matches.from_dense(np.eye(4, dtype=bool))


@quick
@given(label_sides(), st.integers(0, 3), st.sampled_from([1, 40, 2**24]))
def test_labels_match_within_a_hamming_distance(sides, within, block_bytes):
    queries, gallery = sides
    expected = {
        (q, g)
        for q, a in enumerate(queries)
        for g, b in enumerate(gallery)
        if sum(x != y for x, y in zip(a, b, strict=True)) <= within
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", block_bytes)
        assert pairs_of(Matches.from_labels(queries, gallery, within=within)) == expected


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32])
def test_labels_of_every_type(dtype):
    queries, gallery = torch.tensor([[1, 0], [1, 1]]), torch.tensor([[1, 1], [0, 0], [1, 0]])
    matches = Matches.from_labels(queries.to(dtype), gallery.to(dtype), within=1)
    assert pairs_of(matches) == {(0, 0), (0, 1), (0, 2), (1, 0), (1, 2)}


def test_the_hamming_distance_is_exact_for_many_labels():
    labels = np.random.default_rng(0).integers(0, 2, (3, 100_000)).astype(np.float32)
    left, right = hamming_factors(labels, labels)
    expected = [[np.count_nonzero(a != b) for b in labels] for a in labels]
    np.testing.assert_array_equal(left @ right, expected)


@quick
@given(masks)
def test_dense_there_and_back_and_transposed(mask):
    matches = Matches.from_dense(mask)
    np.testing.assert_array_equal(matches.dense(), mask)
    np.testing.assert_array_equal(matches.counts, mask.sum(axis=1))
    np.testing.assert_array_equal(matches.dense(slice(0, 1)), mask[:1])
    np.testing.assert_array_equal(matches.T.dense(), mask.T)
    assert matches == matches.T.T


@quick
@given(masks, st.data())
def test_rows_are_picked_as_numpy_picks_them(mask, data):
    matches = Matches.from_dense(mask)
    picked = data.draw(st.lists(st.integers(-len(mask), len(mask) - 1), min_size=1))
    for rows in (slice(None, None, -1), slice(0, 1), picked):
        np.testing.assert_array_equal(matches[rows].dense(), mask[rows])
    assert matches[torch.tensor(picked)] == matches[picked]
    np.testing.assert_array_equal(matches[mask[:, 0] | True].dense(), mask)


@quick
@given(masks, st.data())
def test_hits_are_membership(mask, data):
    first = data.draw(st.integers(0, len(mask) - 1))
    shape = (data.draw(st.integers(1, len(mask) - first)), data.draw(st.integers(1, 5)))
    ids = data.draw(hnp.arrays(np.int64, shape, elements=st.integers(0, mask.shape[1] - 1)))
    expected = [[bool(mask[first + i, j]) for j in row] for i, row in enumerate(ids)]
    matches = Matches.from_dense(mask)
    assert matches.hits(ids, first).tolist() == expected
    assert matches.hits(torch.tensor(ids), first_row=first).tolist() == expected


def test_rows_from_the_middle():
    matches = Matches.from_classes([0, 1, 0, 2], [0, 0, 1])
    assert [row.tolist() for row in matches.rows(1, 2)] == [[2], [0, 1]]
    assert [row.tolist() for row in matches.rows(2)] == [[0, 1], []]


def test_equality():
    one = Matches.from_pairs([0, 1], [1, 0], (2, 2))
    assert one == Matches.from_pairs([1, 0], [0, 1], (2, 2))
    assert one != Matches.from_pairs([0, 1], [1, 1], (2, 2))
    assert one != Matches.from_pairs([0, 0], [0, 1], (2, 2))
    assert one != Matches.from_pairs([0, 1], [1, 0], (2, 3))
    assert one != "matches"


def test_it_cannot_be_changed():
    starts, ids = np.array([0, 1]), np.array([0], np.int32)
    matches = Matches(starts, ids, (1, 2))
    with pytest.raises(FrozenInstanceError):
        matches.shape = (3, 3)
    with pytest.raises(ValueError, match="read-only"):
        matches.indices[0] = 1
    assert starts.flags.writeable  # the caller's own array stays as it was
    assert ids.flags.writeable


def test_a_huge_gallery_gets_wide_indices():
    assert Matches.from_pairs([0], [5], (1, 2**31 - 1)).indices.dtype == np.int32
    matches = Matches.from_pairs([1], [2**31 + 3], (2, 2**31 + 4))
    assert matches.indices.dtype == np.int64
    assert matches.indices.tolist() == [2**31 + 3]


statements = st.integers(1, 4).flatmap(
    lambda width: st.tuples(
        hnp.arrays(np.int64, (6, width), elements=st.integers(UNSAID, 2)),
        hnp.arrays(np.int64, (7, width), elements=st.integers(0, 2)),
    )
)


@quick
@given(statements, st.sampled_from([1, 90, 2**24]))
def test_facts_against_a_loop(pair, block_bytes):
    said, facts = pair
    expected = [
        [all(a in (UNSAID, b) for a, b in zip(query, item, strict=True)) for item in facts.tolist()]
        for query in said.tolist()
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK_BYTES", block_bytes)
        assert Matches.from_facts(said, facts).dense().tolist() == expected


def test_labels_never_build_a_cube(monkeypatch):
    """2,000 x 2,000 x 80 would be 320 MB even in bytes; the blocks stay below a tenth of it."""
    labels = np.random.default_rng(0).random((2000, 80)) < 0.5
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 2**20)
    tracemalloc.start()
    Matches.from_labels(labels, labels, within=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 * 2**20


BAD_PAIRS = [
    (DataError, r"query_index: must be from 0 to 1, got 2", ([0, 2], [0, 0], (2, 2))),
    (DataError, r"query_index: must be from 0 to 1, got -1", ([0, -1], [0, 0], (2, 2))),
    (DataError, r"gallery_index: must be from 0 to 2, got 3", ([0], [3], (2, 3))),
    (DataError, "query_index: must hold integers, got float64", ([0.0], [0], (2, 2))),
    (ShapeError, "equally long, got 2 and 1", ([0, 1], [0], (2, 2))),
    (ShapeError, r"query_index: must be a list, got shape \(1, 1\)", ([[0]], [0], (2, 2))),
    (ShapeError, r"at least one query .* got \(0, 3\)", ([], [], (0, 3))),
    (ShapeError, r"one gallery item, got \(3, 0\)", ([], [], (3, 0))),
]
BAD_CLASSES = [
    (ShapeError, r"query_classes: must be a list .* got shape \(0,\)", ([], [1])),
    (ShapeError, r"gallery_classes: must be a list .* got shape \(0,\)", ([1], [])),
    (ShapeError, r"query_classes.* got shape \(1, 1\)", ([[1]], [1])),
    (DataError, "gallery_classes: must be integers or strings, got float64", ([1], [1.5])),
    (DataError, "must be integers or strings, got object", (np.array(["a", None]), ["a"])),
    (DataError, "must be of one kind, got int64 and <U1", ([1], ["1"])),
]
BAD_LABELS = [
    (DataError, r"query_labels: must be binary, got 2 .*int64", ([[0, 2]], [[0, 1]], 0)),
    (DataError, r"gallery_labels: must be binary, got 0\.5", ([[0, 1]], [[0.5, 1]], 0)),
    (DataError, "binary, got nan", ([[0, np.nan]], [[0, 1]], 0)),
    (ShapeError, "equally wide, got 2 and 3 labels", ([[0, 1]], [[0, 1, 1]], 0)),
    (ShapeError, r"query_labels.* got shape \(2,\)", ([0, 1], [[0, 1]], 0)),
    (ShapeError, r"query_labels.* got shape \(0, 2\)", (np.ones((0, 2)), [[0, 1]], 0)),
    (ShapeError, r"query_labels.* got shape \(1, 0\)", (np.ones((1, 0)), np.ones((1, 0)), 0)),
    (ConfigError, "within: must be a whole number >= 0, got -1", ([[0, 1]], [[0, 1]], -1)),
]
BAD_MATRICES = [
    (DataError, "must be boolean, got int64", ([[0, 1]],)),
    (ShapeError, r"two dimensions.* got shape \(2,\)", ([True, False],)),
    (ShapeError, r"none of size 0, got shape \(0, 2\)", (np.ones((0, 2), bool),)),
]
BAD_ROWS = [
    (DataError, "indptr: must rise from 0 to 2 in 3 steps", ([0, 2], [0, 1], (2, 3))),
    *((DataError, "indptr: must rise", (starts, [0, 1], (2, 3))) for starts in ([1, 1, 2], [0, 1, 1], [0, 3, 2])),
    *(
        (DataError, f"indices: must be from 0 to 2, got {bad}", ([0, 1, 2], [0, bad], (2, 3)))
        for bad in (3, -1, 2**32 + 1)
    ),
    (DataError, "ascend without repeats .* position 1", ([0, 2, 2], [1, 1], (2, 3))),
    (DataError, "ascend without repeats .* position 2", ([0, 1, 3], [1, 2, 0], (2, 3))),
]
BAD_IDS = [
    (DataError, r"ranked ids: must be from 0 to 2, got 3", ([[0, 3]], 0)),
    (DataError, r"ranked ids: must be from 0 to 2, got -1", ([[0, -1]], 0)),
    (ShapeError, "integer matrix, got float64", ([[0.0, 1.0]], 0)),
    (ShapeError, r"integer matrix, got int64 of shape \(2,\)", ([0, 1], 0)),
    (ShapeError, "to the 2 queries .* got rows 2 to 2", ([[0]], 2)),
    (ShapeError, "to the 2 queries .* got rows -1 to -1", ([[0]], -1)),
    (ShapeError, "to the 2 queries .* got rows 0 to 2", ([[0], [0], [0]], 0)),
]
BAD_FACTS = [
    (ShapeError, "same attributes, got 2 and 1", ([[1, 2]], [[1]])),
    (ShapeError, "said: must be integers", ([[0.5]], [[1]])),
    (DataError, "said: must be at least -1", ([[-2]], [[1]])),
    (DataError, "facts: must be at least 0", ([[1]], [[UNSAID]])),
]
SMALL = Matches.from_pairs([0, 1], [0, 1], (2, 3))
BAD_QUERIES = [
    (ShapeError, "indexed by a slice or a list of queries, got array", (np.array(1),)),
    (ShapeError, "at least one query", (slice(2, None),)),
    (IndexError, "out of bounds", ([2],)),
]


@pytest.mark.parametrize(
    ("build", "error", "message", "arguments"),
    [
        (build, *case)
        for build, cases in [
            (Matches.from_pairs, BAD_PAIRS),
            (Matches.from_classes, BAD_CLASSES),
            (Matches.from_labels, BAD_LABELS),
            (Matches.from_dense, BAD_MATRICES),
            (lambda starts, ids, shape: Matches(np.array(starts), np.array(ids), shape), BAD_ROWS),
            (SMALL.hits, BAD_IDS),
            (Matches.from_facts, BAD_FACTS),
            (SMALL.__getitem__, BAD_QUERIES),
        ]
        for case in cases
    ],
)
def test_bad_input_is_named(build, error, message, arguments):
    with pytest.raises(error, match=message):
        build(*arguments)
