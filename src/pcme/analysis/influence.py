"""influence: what does each word of a caption do to σ and to the match?"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from pcme.analysis.base import (
    PROBABILITY,
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
from pcme.analysis.bootstrap import Estimate, estimated, mean, spearman
from pcme.core.progress import Progress, silent
from pcme.core.random import numpy_stream
from pcme.embedding import Embedding
from pcme.errors import DataError
from pcme.uncertainty.perturbation import embed_words, width

__all__ = ["Influence", "Left", "WordInfluence", "WordInfluences", "without_each"]


SHORTEST = 3
"""Words of a caption that can lose one."""
SHOWN = range(5, 15)
"""Words of a caption that is shown."""


@dataclass(frozen=True)
class Left:
    """A caption, and what changes as each of its words is left out."""

    words: tuple[str, ...]
    log_sigma: tuple[float, ...]
    """The change of mean log σ: above 0, the word made the caption narrower."""
    log_p: tuple[float, ...]
    """The change of log p with the caption's own image: below 0, the word made it match."""
    p: float
    """The match probability of the whole caption with its own image."""


@dataclass(frozen=True)
class WordInfluence:
    """The mean changes over all captions that were looked at and have the word."""

    word: str
    times: int
    log_sigma: float
    log_p: float


@dataclass(frozen=True)
class WordInfluences(Result):
    """What words do, on average and in some captions."""

    captions: int
    words: tuple[WordInfluence, ...]
    """Those seen at least `least` times, from those that narrow most to those that widen most."""
    examples: tuple[Left, ...]
    widens: Estimate
    """The share of words without which a caption is wider."""
    together: Estimate
    """Spearman's ρ of the two changes over all words of all captions."""

    def numbers(self) -> tuple[Number, ...]:
        """How often a lost word widens, and whether words that narrow also make the match."""
        return (
            Number(
                "share of words without which σ is larger",
                self.widens.value,
                "1: every word narrows",
                self.widens.low,
                self.widens.high,
            ),
            Number(
                "ρ of the changes of σ and of log p",
                self.together.value,
                "-1: the words that narrow are those that make the match",
                self.together.low,
                self.together.high,
            ),
        )


@registry.register("influence")
@dataclass(frozen=True)
class Influence(Analysis):
    """Leave one word out: the change of σ and of the match probability.

    `captions` of three words or more are looked at, with the image each was written for.
    """

    needs: ClassVar[tuple[Need, ...]] = (SIGMA, PROBABILITY, WORDS)
    reading: ClassVar[str] = (
        "Left: what happens to σ when a word is left out, on average over captions that have it; "
        "a word to the right is one that pins the meaning down. Right: single captions, word by "
        "word; filled bars are σ, hollow ones the log match probability."
    )
    result: ClassVar[type[Result]] = WordInfluences

    captions: int = 300
    least: int = 5
    examples: int = 3

    def __post_init__(self) -> None:
        for name in ("captions", "least", "examples"):
            at_least(name, getattr(self, name), 1)

    def compute(self, subject: Subject, progress: Progress = silent) -> WordInfluences:
        """Of some captions, chosen at random but always the same."""
        dataset, split = subject.embedded.dataset, subject.model.tokeniser.split
        order = numpy_stream(0, "influence").permutation(len(dataset.captions)).tolist()
        sentences = ((i, split(dataset.captions[i])) for i in order)
        chosen = [(i, words) for i, words in sentences if len(words) >= SHORTEST][: self.captions]
        if not chosen:
            raise DataError(
                f"{dataset.where} has no caption of {SHORTEST} words or more - there is nothing "
                "to leave out"
            )
        left = []
        for done, (i, words) in enumerate(chosen, start=1):
            image = subject.embedded.images[int(dataset.caption_image[i])]
            left.append(without_each(subject, words, image))
            progress("captions", done, len(chosen))
        clusters = subject.caption_clusters[[i for i, _ in chosen]]
        return self._summed(left, np.repeat(clusters, [len(found.words) for found in left]))

    def _summed(self, left: Sequence[Left], clusters: np.ndarray) -> WordInfluences:
        changes = defaultdict(list)
        for found in left:
            for word, *change in zip(found.words, found.log_sigma, found.log_p, strict=True):
                changes[word].append(change)
        words = [
            WordInfluence(word, len(rows), *map(float, np.mean(rows, 0)))
            for word, rows in changes.items()
            if len(rows) >= self.least
        ]
        log_sigma, log_p = (
            np.array([x for found in left for x in getattr(found, name)], np.float64)
            for name in ("log_sigma", "log_p")
        )
        return WordInfluences(
            len(left),
            tuple(sorted(words, key=lambda word: (-word.log_sigma, word.word))),
            tuple(_telling(left, self.examples)),
            estimated(mean((log_sigma > 0).astype(np.float64)), clusters),
            estimated(spearman(log_sigma, log_p), clusters),
        )


def without_each(subject: Subject, words: Sequence[str], image: Embedding) -> Left:
    """The changes that come with the loss of each word of one caption."""
    variants = [list(words), *(_without(words, place) for place in range(len(words)))]
    embedded = embed_words(subject.model, variants)
    widths = width(embedded)
    log_p: Float64[np.ndarray, " v"] = np.asarray(
        subject.model.score()(embedded, image), np.float64
    )[:, 0]
    return Left(
        tuple(words),
        tuple((widths[1:] - widths[0]).tolist()),
        tuple((log_p[1:] - log_p[0]).tolist()),
        float(np.exp(log_p[0])),
    )


def _without(words: Sequence[str], place: int) -> list[str]:
    return [*words[:place], *words[place + 1 :]]


def _telling(left: Sequence[Left], count: int) -> list[Left]:
    """Captions that fit into a picture and are matched: those in which one word does most, and
    in each another word."""
    short = [found for found in left if len(found.words) in SHOWN] or list(left)
    ordered = sorted(short, key=lambda found: -max(found.log_sigma) * found.p)
    by_word = {found.words[int(np.argmax(found.log_sigma))]: found for found in reversed(ordered)}
    return [found for found in ordered if found in by_word.values()][:count]
