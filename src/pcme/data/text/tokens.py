"""Captions as words and as ids: a tokeniser and a vocabulary.

A caption is tokenised once; everything after that works on lists of words. Nothing a user types
can become padding or an end mark: those exist only as ids, and only `Vocab` writes them.

>>> vocab = Vocab.build(["A small bird.", "a bird's nest"])
>>> words = tokenise("A red bird!")
>>> words, vocab.encode(words)
(['a', 'red', 'bird'], [1, 4, 3, 5, 2])
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int64
from torch import Tensor

from pcme.core import files
from pcme.data.text.treebank import treebank
from pcme.errors import ConfigError, DataError, FormatError, ShapeError

PAD, START, END, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<start>", "<end>", "<unk>")
UNKNOWN = SPECIALS[UNK]
FORMAT_VERSION = 1

_APOSTROPHES = dict.fromkeys(map(ord, "\u2018\u2019\u201b\u02bc\u00b4\u0060\uff07"), "'")
# The soft hyphen and the joiners are invisible and stand inside words.
_CLEANED = _APOSTROPHES | dict.fromkeys(map(ord, "\u00ad\u200c\u200d\u2060\ufeff"))
_STRAY_MARKS = re.compile("[\u0300-\u036f]+")
# Ordering the marks of one letter takes CPython quadratic time: a hostile run is cut in pieces.
_PIECES = re.compile(r"\S{1,64}|\s+")
_SUFFIX = r"(?:s|m|d|ll|re|ve)(?![^\W_])"
_TOKEN = re.compile(
    rf"<unk>|[^\W_]+?(?=n't(?![^\W_]))|n't(?![^\W_])|'{_SUFFIX}"
    rf"|[^\W_]+(?:'(?!{_SUFFIX})[^\W_]+)*"
)


def tokenise(caption: str) -> list[str]:
    """The words and numbers of a caption in lower case, without punctuation.

    Splits at white space, hyphens, slashes and all other punctuation. English contractions are
    split as in the Penn Treebank, because GloVe has vectors for their parts; a word such as
    "o'clock" stays whole. `<unk>` is a word; `<pad>`, `<start>` and `<end>` lose their brackets and
    are ordinary words. Unicode is brought to NFKC. Takes time linear in the length, on any input.

    Differs: the authors take nltk's word_tokenize, which keeps punctuation, "1,000" and "blue-grey"
    as words and splits "cannot".

    >>> tokenise("It’s a bird's nest, 3/4 blue-grey; don't touch!")
    ['it', "'s", 'a', 'bird', "'s", 'nest', '3', '4', 'blue', 'grey', 'do', "n't", 'touch']
    >>> tokenise("<start> an <UNK> at ten o'clock <pad>")
    ['start', 'an', '<unk>', 'at', 'ten', "o'clock", 'pad']
    """
    return _TOKEN.findall(_plain(caption))


RULES: Mapping[str, Callable[[str], list[str]]] = MappingProxyType({"plain": tokenise, "treebank": treebank})
"""The ways to find the words of a caption; a vocabulary knows which of them made its words."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """Captions as a batch of ids, padded with PAD, and how many ids each has."""

    ids: Int64[Tensor, "b l"]
    lengths: Int64[Tensor, " b"]


@runtime_checkable
class Tokeniser(Protocol):
    """Turns captions into words, and sentences of words into padded ids; `Vocab` is one."""

    def split(self, caption: str) -> list[str]:
        """The words of a caption, of which augmentation takes some away."""
        ...

    def encode_batch(self, sentences: Sequence[Sequence[str]]) -> Tokens:
        """The ids [b,l] and lengths [b]."""
        ...


@dataclass(frozen=True)
class Vocab:
    """The known words, the most frequent first, and how often each was seen.

    Ids: 0 to 3 are SPECIALS, words follow from 4. A word that is not known is `<unk>`. `rule` is
    the way captions are split into words, one of RULES.

    >>> vocab = Vocab.build(["a bird", "a small bird", "a nest"], min_count=2)
    >>> vocab.words, vocab.counts, len(vocab)
    (('a', 'bird'), (3, 2), 6)
    >>> vocab.decode(vocab.encode(["a", "nest"]))
    'a <unk>'
    >>> "nest" in vocab, vocab.known(["a", "nest"])
    (False, 0.5)
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]
    rule: str = "plain"
    _ids: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ConfigError(f'rule: is unknown, got "{self.rule}". Known: {", ".join(RULES)}.')
        if len(self.counts) != len(self.words):
            raise ShapeError(f"counts: must be one per word, got {len(self.counts)} for {len(self.words)} words.")
        ids = {word: number for number, word in enumerate(self.words, start=len(SPECIALS))}
        if len(ids) != len(self.words) or not ids.keys().isdisjoint((*SPECIALS, "")):
            raise DataError(f"words: must be distinct, not empty and none of {', '.join(SPECIALS)}.")
        object.__setattr__(self, "_ids", ids)

    @classmethod
    def build(cls, captions: Iterable[str], min_count: int = 1) -> "Vocab":
        """The vocabulary of the words seen at least `min_count` times, by frequency, then by name.

        Give it the captions of the training split only.

        Differs: the authors' vocabularies hold the words of the test captions too, so that a word
        never trained on is not `<unk>` at test time.
        """
        if min_count < 1:
            raise ConfigError(f"min_count: must be at least 1, got {min_count}.")
        seen = Counter(chain.from_iterable(map(tokenise, captions)))
        del seen[UNKNOWN]
        kept = [(-count, word) for word, count in seen.items() if count >= min_count]
        kept.sort()
        return cls(tuple(word for _, word in kept), tuple(-count for count, _ in kept))

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def known(self, words: Sequence[str]) -> float:
        """The share of these words that are known; 0 for no words, which are encoded as `<unk>`."""
        return sum(word in self._ids for word in words) / max(len(words), 1)

    def split(self, caption: str) -> list[str]:
        """The words of a caption, by the rule that made this vocabulary."""
        return RULES[self.rule](caption)

    def encode(self, words: Sequence[str]) -> list[int]:
        """The ids of the words between START and END; no words at all become one `<unk>`.

        Not by the rule "treebank": models that were trained so saw nothing between the two. A word
        that spells a special, such as "<pad>", is not known: it becomes `<unk>`.
        """
        if isinstance(words, str):
            raise ShapeError(f'words: must be a list, got "{words[:40]}". Tokenise it.')
        nothing = () if self.rule == "treebank" else (UNKNOWN,)
        return [START, *(self._ids.get(word, UNK) for word in words or nothing), END]

    def encode_batch(self, sentences: Sequence[Sequence[str]]) -> Tokens:
        """The ids of many captions, padded to the longest."""
        rows = [self.encode(words) for words in sentences]
        lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
        longest = max(map(len, rows), default=0)
        padded = [row + [PAD] * (longest - len(row)) for row in rows]
        return Tokens(torch.tensor(padded, dtype=torch.int64).view(len(rows), longest), lengths)

    def decode(self, ids: Iterable[int] | Int64[Tensor, " l"]) -> str:
        """The words of these ids with spaces between them, without padding, start and end."""
        numbers = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        if wrong := [number for number in numbers if not 0 <= number < len(self)]:
            raise DataError(f"ids: must be from 0 to {len(self) - 1}, got {wrong[0]}.")
        names = (*SPECIALS, *self.words)
        return " ".join(names[number] for number in numbers if number >= UNK)

    def save(self, path: str | Path) -> None:
        """Write the vocabulary as JSON: the file is the old one or the new one, never a part."""
        head = {"format_version": FORMAT_VERSION, "specials": SPECIALS}
        # Left out where it is the default: what older versions wrote reads and looks the same.
        rule = {} if self.rule == "plain" else {"rule": self.rule}
        record = {**head, **rule, "words": self.words, "counts": self.counts}
        files.write_text(Path(path), json.dumps(record, ensure_ascii=False))

    @classmethod
    def load(cls, path: str | Path) -> "Vocab":
        """The vocabulary in a file that `save` wrote; a FormatError for anything else."""
        record = _record(Path(path))
        words, counts = record.get("words"), record.get("counts")
        if record.get("specials") != list(SPECIALS):
            raise FormatError(f"{path}: specials must be {', '.join(SPECIALS)} in this order")
        if not isinstance(words, list) or not all(type(word) is str for word in words):
            raise FormatError(f"{path}: words must be a list of strings")
        if not isinstance(counts, list) or not all(type(n) is int and n > 0 for n in counts):
            raise FormatError(f"{path}: counts must be a list of positive whole numbers")
        try:
            return cls(tuple(words), tuple(counts), str(record.get("rule", "plain")))
        except (ConfigError, DataError, ShapeError) as error:
            raise FormatError(f"{path}: {error}") from error


def _plain(caption: str) -> str:
    """The caption in lower case and NFKC, with plain apostrophes and no stray accents."""
    if caption.isascii():
        return caption.replace("`", "'").lower()
    cleaned = caption.translate(_CLEANED)
    return _STRAY_MARKS.sub("", "".join(map(_normal, _PIECES.findall(cleaned))))


def _normal(piece: str) -> str:
    # Twice, because the lower case of a normal form need not be one.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", piece).lower())


def _record(path: Path) -> dict[str, object]:
    try:
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read, {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: not a vocabulary, which is JSON, {error}.") from error
    if not isinstance(record, dict):
        raise FormatError(f"{path}: not a vocabulary, got a JSON {type(record).__name__}.")
    version = record.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:  # True == 1
        raise FormatError(f"{path}: format must be {FORMAT_VERSION}, got {version!r}. Build the vocabulary again.")
    return record
