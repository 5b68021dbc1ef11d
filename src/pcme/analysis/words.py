"""words: which words stand in narrow captions, and which in wide ones? Paper: §F.2."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from jaxtyping import Float64, Int64

from pcme.analysis.base import (
    SIGMA,
    WORDS,
    Analysis,
    Need,
    Number,
    Result,
    Subject,
    at_least,
    registry,
)
from pcme.analysis.bootstrap import Estimate, estimated, spearman
from pcme.core.progress import Progress, silent
from pcme.data.text.tokens import tokenise
from pcme.errors import DataError
from pcme.uncertainty.perturbation import width

__all__ = ["BinWords", "Placed", "SideWords", "Weighed", "WordBins", "Words", "tf_idf"]


@dataclass(frozen=True)
class Weighed:
    """A word of a bin: in how many captions it stands, and its TF-IDF."""

    word: str
    captions: int
    weight: float
    lift: float = 1.0
    """How many times as often it stands here as in all captions."""


@dataclass(frozen=True)
class Placed:
    """A word, in how many captions it stands, and how wide the items are that have it.

    `place` is the mean share of items that are narrower: 0 for the narrowest, 1 for the widest.
    """

    word: str
    captions: int
    place: float


@dataclass(frozen=True)
class BinWords:
    """The words of greatest weight in the captions of one bin of σ."""

    width: float
    captions: int
    words: tuple[Weighed, ...]


@dataclass(frozen=True)
class SideWords:
    """The words of images (those of their own captions) or of captions, bin by bin."""

    of: str
    bins: tuple[BinWords, ...]
    narrowest: tuple[Placed, ...]
    widest: tuple[Placed, ...]
    """The words of the narrowest and of the widest company."""
    length: Estimate
    """Spearman's ρ of mean log σ with the number of words (of an image: in all its captions)."""


@dataclass(frozen=True)
class WordBins(Result):
    """The words of narrow and of wide items."""

    sides: tuple[SideWords, ...]

    def numbers(self) -> tuple[Number, ...]:
        """Whether those who say more are narrower."""
        return tuple(
            Number(
                f"ρ of σ and number of words, {side.of}",
                side.length.value,
                "below 0: what says more is narrower",
                side.length.low,
                side.length.high,
            )
            for side in self.sides
        )


@registry.register("words")
@dataclass(frozen=True)
class Words(Analysis):
    """The words of each bin of σ by TF-IDF, of images and of captions. Paper: §F.2.

    Words that stand in fewer than `least` captions are not among the narrowest and widest.
    """

    needs: ClassVar[tuple[Need, ...]] = (SIGMA, WORDS)
    reading: ClassVar[str] = (
        "Above, the words of greatest TF-IDF in each bin of σ, the narrowest on the left; a bar "
        "beyond the dotted line stands for a word that is more frequent in this bin than "
        "elsewhere. Below, the words whose captions (or images) are narrowest and widest on "
        "average."
    )
    result: ClassVar[type[Result]] = WordBins

    bins: int = 5
    top: int = 8
    least: int = 20

    def __post_init__(self) -> None:
        for name in ("bins", "top", "least"):
            at_least(name, getattr(self, name), 2 if name == "bins" else 1)

    def compute(self, subject: Subject, progress: Progress = silent) -> WordBins:
        """Images with the words of their own captions, and captions with their own."""
        dataset = subject.embedded.dataset
        texts = [frozenset(tokenise(text)) for text in dataset.captions]
        lengths = np.array([len(tokenise(text)) for text in dataset.captions], np.float64)
        own = np.arange(len(texts))
        sides = (
            ("images", width(subject.images), dataset.caption_image, subject.clusters),
            ("captions", width(subject.captions), own, subject.caption_clusters),
        )
        return WordBins(
            tuple(
                self._side(of, widths, owner, clusters, texts, lengths)
                for of, widths, owner, clusters in sides
            )
        )

    def _side(
        self,
        of: str,
        widths: Float64[np.ndarray, " n"],
        owner: Int64[np.ndarray, " m"],
        clusters: Int64[np.ndarray, " n"],
        texts: Sequence[frozenset[str]],
        lengths: Float64[np.ndarray, " m"],
    ) -> SideWords:
        """`owner` is the item of each caption."""
        if len(widths) < self.bins:
            raise DataError(
                f"{self.bins} bins need as many {of} - got {len(widths)} - --set bins=2"
            )
        parts = np.array_split(np.argsort(widths, kind="stable"), self.bins)
        bins = tuple(self._bin(widths[part], np.isin(owner, part), texts) for part in parts)
        ranked = self._ranked(widths, owner, texts)
        said = np.bincount(owner, lengths, len(widths))
        return SideWords(
            of,
            bins,
            tuple(ranked[: self.top]),
            tuple(reversed(ranked[-self.top :])),
            estimated(spearman(widths, said), clusters),
        )

    def _bin(
        self,
        widths: Float64[np.ndarray, " k"],
        inside: np.ndarray,
        texts: Sequence[frozenset[str]],
    ) -> BinWords:
        some = [texts[i] for i in np.flatnonzero(inside).tolist()]
        everywhere = _counts(texts)
        words = tuple(
            replace(
                word,
                lift=word.captions / len(some) / (everywhere[word.word] / len(texts)),
            )
            for word in tf_idf(some)[: self.top]
        )
        return BinWords(float(np.median(widths)), len(some), words)

    def _ranked(
        self,
        widths: Float64[np.ndarray, " n"],
        owner: Int64[np.ndarray, " m"],
        texts: Sequence[frozenset[str]],
    ) -> list[Placed]:
        """Words from the narrowest to the widest company."""
        share = np.argsort(np.argsort(widths, kind="stable")) / max(len(widths) - 1, 1)
        total: defaultdict[str, float] = defaultdict(float)
        for item, words in zip(owner.tolist(), texts, strict=True):
            for word in words:
                total[word] += float(share[item])
        found = [
            Placed(word, count, total[word] / count)
            for word, count in _counts(texts).items()
            if count >= self.least
        ]
        return sorted(found, key=lambda word: (word.place, word.word))


def tf_idf(texts: Sequence[frozenset[str]]) -> tuple[Weighed, ...]:
    """All words by (1 + log n) log(N / n), the greatest first; n of N captions have the word.

    Paper: §F.2. A bin is a collection of its own: with N and n of all captions, as the formula may
    also be read, every bin would have the same words.

    >>> tf_idf([frozenset({"a", "bird"}), frozenset({"a", "jay"}), frozenset({"a", "bird"})])[1]
    Weighed(word='bird', captions=2, weight=0.686..., lift=1.0)
    """
    found = [
        Weighed(word, n, (1 + math.log(n)) * math.log(len(texts) / n))
        for word, n in _counts(texts).items()
    ]
    return tuple(sorted(found, key=lambda word: (-word.weight, word.word)))


def _counts(texts: Iterable[frozenset[str]]) -> Counter[str]:
    return Counter(word for words in texts for word in words)
