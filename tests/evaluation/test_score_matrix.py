"""Matrices of scores in files: blocks give what the whole matrix gives, and memory stays bounded."""

import numpy as np
import pytest

from pcme import scores
from pcme.errors import DataError, FormatError
from pcme.evaluation import evaluate_score, protocol, score_matrix
from pcme.evaluation.passes import evaluate_blocks
from pcme.evaluation.score_matrix import ScoreMatrix
from tests.data.formats.reading import traced
from tests.evaluation.splits import FOLDS_OF_4, embeddings, toy

SPLIT = toy(20, 5, density=0.3)
RULES = protocol(SPLIT, FOLDS_OF_4)
SCORE = scores.create("csd")


@pytest.fixture(scope="module")
def values():
    images, captions = embeddings(SPLIT)
    return np.ascontiguousarray(SCORE(captions, images).numpy().T)


def judged(path, images=None, captions=None):
    matrix = ScoreMatrix.open(path)
    matrix.require_order()
    return evaluate_blocks("given", matrix.by_caption(images, captions), matrix.by_image(images, captions), RULES)


def assert_same(found, expected):
    for way in ("i2t", "t2i"):
        left, right = found.direction(way), expected.direction(way)
        assert list(left.values) == list(right.values)
        for name, column in right.values.items():
            np.testing.assert_array_equal(left.values[name], column, err_msg=f"{way} {name}")


@pytest.mark.parametrize("block_bytes", [1, 4 * 100 * 3, 2**26])
@pytest.mark.parametrize("how", ["C", "F", ">f4", "f8"])
def test_a_matrix_is_judged_as_the_score_that_made_it(values, how, block_bytes, tmp_path, monkeypatch):
    """The score itself is judged against plain loops in test_passes.py."""
    monkeypatch.setattr(score_matrix, "BLOCK_BYTES", block_bytes)
    np.save(tmp_path / "m.npy", np.asfortranarray(values) if how == "F" else values.astype("f4" if how == "C" else how))
    found = judged(tmp_path / "m.npy")
    assert_same(found, evaluate_score(SCORE, *embeddings(SPLIT), RULES))
    assert (found.score, found.digest, found.queries, found.gallery) == ("given", RULES.digest, 100, 20)


def test_rows_and_columns_are_taken_in_the_order_of_the_split(values, tmp_path, monkeypatch):
    monkeypatch.setattr(score_matrix, "BLOCK_BYTES", 1000)
    generator = np.random.default_rng(0)
    rows, columns = generator.permutation(23), generator.permutation(107)
    whole = generator.normal(size=(23, 107)).astype(np.float32)  # more than the split has
    whole[np.ix_(rows[:20], columns[:100])] = values
    np.save(tmp_path / "m.npy", whole)
    np.save(tmp_path / "plain.npy", values)
    assert_same(judged(tmp_path / "m.npy", rows[:20], columns[:100]), judged(tmp_path / "plain.npy"))
    (_, first) = next(ScoreMatrix.open(tmp_path / "m.npy").by_caption(rows[:20], None))
    np.testing.assert_array_equal(first, whole[rows[:20]].T[: len(first)])


def test_halves_are_ranked_as_they_are_stored(values, tmp_path):
    np.save(tmp_path / "half.npy", values.astype(np.float16))
    np.save(tmp_path / "wide.npy", values.astype(np.float16).astype(np.float32))
    assert_same(judged(tmp_path / "half.npy"), judged(tmp_path / "wide.npy"))


def test_memory_is_that_of_a_few_blocks_not_of_the_matrix(tmp_path, monkeypatch):
    monkeypatch.setattr(score_matrix, "BLOCK_BYTES", 2**18)
    size = 2000
    split = toy(size, 1, labels=0)
    matrix = np.lib.format.open_memmap(tmp_path / "m.npy", "w+", np.float32, (size, size))
    matrix[:] = np.arange(size, dtype=np.float32)
    matrix.flush()
    rules = protocol(split)

    def judge():
        opened = ScoreMatrix.open(tmp_path / "m.npy")
        opened.require_order()
        return evaluate_blocks("given", opened.by_caption(None, None), opened.by_image(None, None), rules)

    found, peak = traced(judge)
    assert peak < matrix.nbytes / 2
    ranks = found.i2t.values["rank"]
    np.testing.assert_array_equal(ranks, size - np.arange(size))
    np.testing.assert_array_equal(found.t2i.values["rank"], 1 + np.arange(size))  # ties: the lower id


@pytest.mark.parametrize(
    ("value", "message"), [(np.nan, "got nan at image 7, caption 31"), (np.inf, "got inf at image 7, caption 31")]
)
@pytest.mark.parametrize("block_bytes", [1, 2**26])
def test_what_has_no_order_is_found_where_it_is(values, value, message, block_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr(score_matrix, "BLOCK_BYTES", block_bytes)
    wrong = values.copy()
    wrong[7, 31] = value
    np.save(tmp_path / "m.npy", wrong)
    with pytest.raises(DataError, match=rf"m\.npy: must not be NaN or \+inf, {message} \(from 0\)"):
        ScoreMatrix.open(tmp_path / "m.npy").require_order()


def test_minus_infinity_is_last(values, tmp_path):
    low, lowest = values.copy(), values.copy()
    low[3], lowest[3] = values.min() - 1, -np.inf
    for name, matrix in (("low", low), ("lowest", lowest)):
        np.save(tmp_path / f"{name}.npy", matrix)
    assert_same(judged(tmp_path / "lowest.npy"), judged(tmp_path / "low.npy"))


WRONG = {
    "whole.npy": (
        np.ones((3, 4), np.int64),
        FormatError,
        r"must hold real numbers \[images, captions\], got int64 \[3, 4\]",
    ),
    "three.npy": (np.ones((3, 4, 1)), FormatError, r"must hold real numbers .* got float64 \[3, 4, 1\]"),
    "empty.npy": (np.ones((0, 4)), FormatError, r"must hold real numbers .* got float64 \[0, 4\]"),
    "objects.npy": (np.array([[None, {}]], object), FormatError, "not a NumPy file of numbers.*Python objects"),
    "complex.npy": (np.ones((3, 4), complex), FormatError, "must hold real numbers .* got complex128"),
    "text.npy": (b"1 2 3", FormatError, "not a NumPy file of numbers"),
    "nowhere.npy": (None, DataError, "no such file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_matrix_is_refused(tmp_path, name):
    content, error, message = WRONG[name]
    if isinstance(content, bytes):
        (tmp_path / name).write_bytes(content)
    elif content is not None:
        np.save(tmp_path / name, content, allow_pickle=True)
    with pytest.raises(error, match=f"{name}: {message}"):
        ScoreMatrix.open(tmp_path / name)
