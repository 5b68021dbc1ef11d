"""Captions as words and as ids: a tokeniser and a vocabulary.

A caption is tokenised once; everything after that works on lists of words. No text can become padding or an end mark:
those exist only as ids, and only `Vocab` writes them.

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
from functools import partial
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError
from torch import Tensor

from pcme.core import files
from pcme.core.checks import require, require_known
from pcme.data.text.treebank import treebank
from pcme.errors import ConfigError, DataError, FormatError, ShapeError

PAD, START, END, UNK = 0, 1, 2, 3
SPECIALS = ("<pad>", "<start>", "<end>", "<unk>")
UNKNOWN = SPECIALS[UNK]

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
    """The words and numbers of a caption in lower case, without punctuation, in time linear in its length.

    Splits at white space, hyphens, slashes and all other punctuation. English contractions are split as in the Penn
    Treebank, because GloVe has vectors for their parts; a word such as "o'clock" stays whole. `<unk>` is a word;
    `<pad>`, `<start>` and `<end>` lose their brackets and are ordinary words. Unicode is brought to NFKC.

    Differs: the authors take nltk's word_tokenize, which keeps punctuation, "1,000" and "blue-grey" as words and splits
    "cannot".

    >>> tokenise("It’s a bird's nest, 3/4 blue-grey; don't touch!")
    ['it', "'s", 'a', 'bird', "'s", 'nest', '3', '4', 'blue', 'grey', 'do', "n't", 'touch']
    >>> tokenise("<start> an <UNK> at ten o'clock <pad>")
    ['start', 'an', '<unk>', 'at', 'ten', "o'clock", 'pad']
    """
    return _TOKEN.findall(_plain(caption))


RULES: Mapping[str, Callable[[str], list[str]]] = MappingProxyType({"plain": tokenise, "treebank": treebank})
"""The rules that split captions into words; a vocabulary stores the name of its own."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """Captions as a batch of ids, padded with PAD, and the number of ids of each.

    Of p tokenisers side by side there are ids [b,p,l], padded to the longest of all, and lengths [b,p]. `states` are
    what the text towers of a network make of these ids, one entry per tower, where that was computed before.
    """

    ids: Int64[Tensor, "b *p l"]
    lengths: Int64[Tensor, "b *p"]
    states: tuple[Float[Tensor, "b _ _"], ...] = ()


@runtime_checkable
class Tokeniser(Protocol):
    """Turns captions into words, and sentences of words into padded ids; `Vocab` is one."""

    def split(self, caption: str) -> list[str]:
        """The words of a caption, before augmentation drops any."""
        ...

    def encode_batch(self, sentences: Sequence[Sequence[str]]) -> Tokens:
        """The ids and lengths of a batch of captions."""
        ...


@dataclass(frozen=True)
class Vocab:
    """The known words, the most frequent first, and how often each was seen; `rule` is one of RULES.

    Ids: 0 to 3 are SPECIALS, words follow from 4. A word that is not known is `<unk>`.

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
        require_known("rule", self.rule, tuple(RULES))
        if len(self.counts) != len(self.words):
            raise ShapeError(f"counts: must be one per word, got {len(self.counts)} for {len(self.words)} words.")
        ids = {word: number for number, word in enumerate(self.words, start=len(SPECIALS))}
        if len(ids) != len(self.words) or not ids.keys().isdisjoint((*SPECIALS, "")):
            raise DataError(f"words: must be distinct, not empty and none of {', '.join(SPECIALS)}.")
        object.__setattr__(self, "_ids", ids)

    @classmethod
    def build(cls, captions: Iterable[str], min_count: int = 1) -> "Vocab":
        """The words that occur at least `min_count` times in training captions, by frequency, then by name.

        Differs: the authors' vocabularies hold the words of the test captions too, so that a word never trained on is
        not `<unk>` at test time.
        """
        require("min_count", min_count >= 1, "at least 1", min_count)
        counts = Counter(chain.from_iterable(map(tokenise, captions)))
        del counts[UNKNOWN]
        frequent = sorted((-count, word) for word, count in counts.items() if count >= min_count)
        return cls(tuple(word for _, word in frequent), tuple(-count for count, _ in frequent))

    def __len__(self) -> int:
        return len(SPECIALS) + len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def known(self, words: Sequence[str]) -> float:
        """The share of these words that are known; 0 for no words."""
        return sum(word in self._ids for word in words) / max(len(words), 1)

    def split(self, caption: str) -> list[str]:
        """The words of a caption, by this vocabulary's rule."""
        return RULES[self.rule](caption)

    def encode(self, words: Sequence[str]) -> list[int]:
        """The ids of the words between START and END; no words at all, and specials such as "<pad>", become `<unk>`.

        By the rule "treebank" no words stay none: models that were trained so saw nothing between the two.
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
        if invalid := [number for number in numbers if not 0 <= number < len(self)]:
            raise DataError(f"ids: must be from 0 to {len(self) - 1}, got {invalid[0]}.")
        names = (*SPECIALS, *self.words)
        return " ".join(names[number] for number in numbers if number >= UNK)

    def save(self, path: str | Path) -> None:
        """Write the vocabulary as JSON, atomically."""
        rule = {} if self.rule == "plain" else {"rule": self.rule}  # older versions wrote none
        record = {"format_version": 1, "specials": SPECIALS, **rule, "words": self.words, "counts": self.counts}
        files.write_text(Path(path), json.dumps(record, ensure_ascii=False))

    @classmethod
    def load(cls, path: str | Path) -> "Vocab":
        """The vocabulary in a file that `save` wrote; a FormatError for anything else."""
        try:
            record = _Record.model_validate_json(Path(path).read_bytes())
            return cls(record.words, record.counts, record.rule)
        except OSError as error:
            raise DataError(f"{path}: cannot be read, {error.strerror or error}.") from error
        except ValidationError as error:
            first = error.errors()[0]
            field, value = ".".join(map(str, first["loc"])), f"{first['input']!r:.40}"
            raise FormatError(
                f"{path}: not a vocabulary, {field}: {first['msg']}, got {value}. Build the vocabulary again."
            ) from error
        except (ConfigError, DataError, ShapeError) as error:
            raise FormatError(f"{path}: {error}") from error


class _Record(BaseModel):
    """A vocabulary as `save` writes it."""

    model_config = ConfigDict(strict=True)
    format_version: Literal[1]
    specials: tuple[Literal["<pad>"], Literal["<start>"], Literal["<end>"], Literal["<unk>"]]
    words: tuple[str, ...]
    counts: tuple[PositiveInt, ...]
    rule: str = "plain"


def _plain(caption: str) -> str:
    """The caption in lower case and NFKC, with plain apostrophes and no stray accents."""
    if caption.isascii():
        return caption.replace("`", "'").lower()
    cleaned = caption.translate(_CLEANED)
    normal = partial(unicodedata.normalize, "NFKC")
    # Twice, because the lower case of a normal form need not be one.
    return _STRAY_MARKS.sub("", "".join(normal(normal(piece).lower()) for piece in _PIECES.findall(cleaned)))
