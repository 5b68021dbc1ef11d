"""words: which words occur in narrow captions, and which in wide ones? Paper: §F.2."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pcme.analysis.base import SIGMA, WORDS, Analysis, Number, Result, Side, Subject, registry, sides
from pcme.core.progress import Progress, silent
from pcme.data.text.tokens import tokenise
from pcme.errors import DataError
from pcme.evaluation.bootstrap import Estimate, estimate, spearman
from pcme.plots import style

LONGEST = 12
LISTS, ENDS = 2.3, 3.4
"""Inches: the height of a row of lists, and of the panels below them."""


@dataclass(frozen=True)
class WeightedWord:
    """A word of a bin: in how many captions it occurs, and its TF-IDF."""

    word: str
    captions: int
    weight: float
    lift: float = 1.0
    """Its frequency here over that in all captions."""


@dataclass(frozen=True)
class RankedWord:
    """A word, in how many captions it occurs, and how wide the items are that have it.

    `place` is the mean share of items that are narrower: 0 for the narrowest, 1 for the widest.
    """

    word: str
    captions: int
    place: float


@dataclass(frozen=True)
class BinWords:
    """The words of the largest weight in the captions of one bin of σ."""

    width: float
    captions: int
    words: tuple[WeightedWord, ...]


@dataclass(frozen=True)
class SideWords:
    """The words of images (those of their captions) or of captions, bin by bin."""

    of: str
    bins: tuple[BinWords, ...]
    narrowest: tuple[RankedWord, ...]
    widest: tuple[RankedWord, ...]
    """The words whose items are the narrowest and the widest."""
    length: Estimate
    """Spearman's ρ of mean log σ with the number of words (of an image: in all its captions)."""


@dataclass(frozen=True)
class WordBins(Result):
    """The words of narrow and of wide items."""

    sides: tuple[SideWords, ...]

    def numbers(self) -> tuple[Number, ...]:
        """Whether items with more words are narrower."""
        return tuple(
            Number.of(f"ρ of σ and number of words, {side.of}", side.length, "below 0: what says more is narrower")
            for side in self.sides
        )


@registry.register("words")
@dataclass(frozen=True)
class WordsAnalysis(Analysis[WordBins], at_least={"bins": 2, "top": 1, "least": 1}):
    """The words of each bin of σ by TF-IDF, of images and of captions. Paper: §F.2.

    Words that stand in fewer than `least` captions are not among the narrowest and widest.
    """

    needs = (SIGMA, WORDS)
    reading = (
        "Above, the words of greatest TF-IDF in each bin of σ, the narrowest on the left; a bar beyond the dotted line "
        "stands for a word that is more frequent in this bin than elsewhere. Below, the words whose captions (or "
        "images) are narrowest and widest on average."
    )

    bins: int = 5
    top: int = 8
    least: int = 20

    def compute(self, subject: Subject, progress: Progress = silent) -> WordBins:
        """Images with the words of their captions, and captions with their own."""
        captions = [tokenise(text) for text in subject.embedded.dataset.captions]
        return WordBins(tuple(self._side(side, captions) for side in sides(subject)))

    @style.styled
    def draw(self, result: WordBins, images: object = None) -> style.Figure:
        """A row of lists for images and one for captions; below, the narrowest and widest words."""
        heights = [*[LISTS] * len(result.sides), ENDS]
        figure, parts = style.divided(sum(heights), heights=heights)
        panels = style.panels_of(parts[-1], 1, len(result.sides))
        for number, side in enumerate(result.sides):
            _lists(parts[number], side, style.PALETTE[number])
            _ends(panels[number], side, style.PALETTE[number], style.MARKERS[number])
        return figure

    def _side(self, side: Side, captions: Sequence[Sequence[str]]) -> SideWords:
        widths, texts = side.log_sigma, [frozenset(words) for words in captions]
        if len(widths) < self.bins:
            raise DataError(f"bins: {self.bins} need as many {side.of}, got {len(widths)}. Use fewer: --set bins=2")
        everywhere = _counts(texts)
        parts = np.array_split(np.argsort(widths, kind="stable"), self.bins)
        bins = []
        for part in parts:
            some = [texts[i] for i in np.flatnonzero(np.isin(side.owner, part)).tolist()]
            words = tuple(
                replace(word, lift=word.captions / len(some) / (everywhere[word.word] / len(texts)))
                for word in tf_idf(some)[: self.top]
            )
            bins.append(BinWords(float(np.median(widths[part])), len(some), words))
        ranked = self._ranked(side, texts)
        lengths = np.bincount(side.owner, [float(len(words)) for words in captions], len(widths))
        return SideWords(
            side.of,
            tuple(bins),
            tuple(ranked[: self.top]),
            tuple(reversed(ranked[-self.top :])),
            estimate(spearman(widths, lengths), side.clusters),
        )

    def _ranked(self, side: Side, texts: Sequence[frozenset[str]]) -> list[RankedWord]:
        """Words by the mean σ of their items, the narrowest first."""
        share = np.argsort(np.argsort(side.log_sigma, kind="stable")) / max(len(side.log_sigma) - 1, 1)
        total: defaultdict[str, float] = defaultdict(float)
        for item, words in zip(side.owner.tolist(), texts, strict=True):
            for word in words:
                total[word] += float(share[item])
        frequent = [(word, count) for word, count in _counts(texts).items() if count >= self.least]
        ranked = [RankedWord(word, count, total[word] / count) for word, count in frequent]
        return sorted(ranked, key=lambda word: (word.place, word.word))


def tf_idf(texts: Sequence[frozenset[str]]) -> tuple[WeightedWord, ...]:
    """All words by (1 + log n) log(N / n), the largest first; n of N captions have the word.

    Paper: §F.2. A bin is a collection of its own: with N and n of all captions, as the formula may also be read, every
    bin would have the same words.

    >>> tf_idf([frozenset({"a", "bird"}), frozenset({"a", "jay"}), frozenset({"a", "bird"})])[1]
    WeightedWord(word='bird', captions=2, weight=0.686..., lift=1.0)
    """
    words = [WeightedWord(word, n, (1 + math.log(n)) * math.log(len(texts) / n)) for word, n in _counts(texts).items()]
    return tuple(sorted(words, key=lambda word: (-word.weight, word.word)))


def _counts(texts: Sequence[frozenset[str]]) -> Counter[str]:
    return Counter(word for words in texts for word in words)


def _lists(part: style.SubFigure, side: SideWords, colour: str) -> None:
    longest = max((word.lift for words in side.bins for word in words.words), default=1.0)
    panels = style.panels_of(part, 1, len(side.bins))
    for axes, words in zip(panels, side.bins, strict=True):
        _list(axes, words, colour)
        axes.set_xlim(0, 1.05 * longest)
    title = f"{side.of}: words by TF-IDF in bins of σ, the narrowest first"
    part.suptitle(title, fontsize=9, fontweight="bold")
    part.supxlabel("number: median of mean log σ; bar: how often here against everywhere, dotted: as often", fontsize=8)


def _list(axes: style.Axes, content: BinWords, colour: str) -> None:
    axes.barh(range(len(content.words)), [word.lift for word in content.words], color=colour, alpha=0.35, height=0.86)
    axes.axvline(1, color=style.INK, linestyle=":", linewidth=1)
    for row, word in enumerate(content.words):
        axes.text(0, row, f" {style.shortened(word.word, LONGEST)}", va="center", fontsize=8)
    axes.set_title(f"{content.width:.2f}".replace("-", "−"), fontsize=8, fontweight="normal", loc="center")
    axes.invert_yaxis()
    axes.set(xticks=[], yticks=[])
    axes.spines["bottom"].set_visible(False)
    axes.grid(visible=False)


def _ends(axes: style.Axes, side: SideWords, colour: str, marker: str) -> None:
    words = [*side.narrowest, *reversed(side.widest)]
    rows, shares = range(len(words)), [100 * word.place for word in words]
    axes.hlines(rows, 50, shares, color=style.FAINT, linewidth=0.8)
    axes.plot(shares, rows, marker, color=colour, linestyle="none")
    axes.axhline(len(side.narrowest) - 0.5, color=style.INK, linestyle=":", linewidth=1)
    axes.set_yticks(rows, [style.shortened(word.word, LONGEST) for word in words])
    axes.invert_yaxis()
    axes.set(xlim=(0, 100), title=side.of)
    axes.set(xlabel=f"{side.of} that are narrower (%, mean)", ylabel="narrowest … widest")
