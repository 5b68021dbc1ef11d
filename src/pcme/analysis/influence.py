"""influence: how does each word of a caption change σ and the match?"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from pcme.analysis.base import PROBABILITY, SIGMA, WORDS, Analysis, Number, Result, Subject, registry, sample_rows
from pcme.core.progress import Progress, silent
from pcme.embedding import Embedding
from pcme.errors import DataError
from pcme.evaluation.bootstrap import Estimate, estimate, spearman, weighted_mean
from pcme.plots import style
from pcme.uncertainty.perturbation import embed_words
from pcme.uncertainty.sigma import mean_log_sigma

ENDS_SHOWN = 9
"""Words from either end of the list."""
SHORTEST = 3
"""Captions with fewer words are left out."""
SHOWN = range(5, 15)
"""How many words an example may have."""


@dataclass(frozen=True)
class LeaveOneOut:
    """A caption, and the changes as each of its words is left out."""

    words: tuple[str, ...]
    log_sigma: tuple[float, ...]
    """The change of mean log σ, per word: above 0, the word makes the caption narrower."""
    log_p: tuple[float, ...]
    """The change of log p with the caption's own image: below 0, the word makes it match."""
    p: float
    """The match probability of the whole caption with its own image."""


@dataclass(frozen=True)
class WordInfluence:
    """The mean changes over the captions that have the word."""

    word: str
    times: int
    log_sigma: float
    log_p: float


@dataclass(frozen=True)
class WordInfluences(Result):
    """The effects of words, on average and in some captions."""

    captions: int
    words: tuple[WordInfluence, ...]
    """Those seen at least `least` times, from those that narrow most to those that widen most."""
    examples: tuple[LeaveOneOut, ...]
    widens: Estimate
    """The share of words without which a caption is wider."""
    together: Estimate
    """Spearman's ρ of the two changes over all words of all captions."""

    def numbers(self) -> tuple[Number, ...]:
        """How often a missing word widens, and whether words that narrow also make the match."""
        same = "-1: the words that narrow are those that make the match"
        return (
            Number.of("share of words without which σ is larger", self.widens, "1: every word narrows"),
            Number.of("ρ of the changes of σ and of log p", self.together, same),
        )


@registry.register("influence")
@dataclass(frozen=True)
class InfluenceAnalysis(Analysis[WordInfluences], at_least={"captions": 1, "least": 1, "examples": 1}):
    """Leave one word out: the change of σ and of the match probability.

    A sample of `captions` with three words or more, each with the image it was written for.
    """

    needs = (SIGMA, PROBABILITY, WORDS)
    reading = (
        "Left: what happens to σ when a word is left out, on average over captions that have it; a word to the right "
        "is one that pins the meaning down. Right: single captions, word by word; filled bars are σ, hollow ones the "
        "log match probability."
    )

    captions: int = 300
    least: int = 5
    examples: int = 3

    def compute(self, subject: Subject, progress: Progress = silent) -> WordInfluences:
        """Over a fixed random sample of captions."""
        dataset, split = subject.embedded.dataset, subject.model.tokeniser.split
        rows = sample_rows(len(dataset.captions), len(dataset.captions), "influence")
        sentences = ((i, split(dataset.captions[i])) for i in rows)
        chosen = [(i, words) for i, words in sentences if len(words) >= SHORTEST][: self.captions]
        if not chosen:
            raise DataError(f"{dataset.where}: no caption has {SHORTEST} words or more. Choose another split.")
        left = []
        for done, (i, words) in enumerate(chosen, start=1):
            image = subject.embedded.images[int(dataset.caption_image[i])]
            left.append(without_each(subject, words, image))
            progress("captions", done, len(chosen))
        clusters = subject.caption_clusters[[i for i, _ in chosen]]
        return self._summed(left, np.repeat(clusters, [len(words) for _, words in chosen]))

    @style.styled
    def draw(self, result: WordInfluences, images: object = None) -> style.Figure:
        """Words on average on the left, single captions on the right."""
        figure, (left, right) = style.divided(5.4, widths=(1, 1.15))
        _words(style.panels_of(left)[0], result.words)
        panels = style.panels_of(right, max(len(result.examples), 1))
        for axes, example in zip(panels, result.examples, strict=True):
            _example(axes, example)
        if result.examples:
            panels[-1].set_xlabel("change when the word is left out")
            right.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        return figure

    def _summed(self, left: Sequence[LeaveOneOut], clusters: np.ndarray) -> WordInfluences:
        changes = defaultdict(list)
        for caption in left:
            for word, *change in zip(caption.words, caption.log_sigma, caption.log_p, strict=True):
                changes[word].append(change)
        words = [
            WordInfluence(word, len(rows), *np.mean(rows, 0).tolist())
            for word, rows in changes.items()
            if len(rows) >= self.least
        ]
        log_sigma, log_p = np.concatenate([(caption.log_sigma, caption.log_p) for caption in left], axis=1)
        return WordInfluences(
            len(left),
            tuple(sorted(words, key=lambda word: (-word.log_sigma, word.word))),
            tuple(_telling(left, self.examples)),
            estimate(weighted_mean(log_sigma > 0), clusters),
            estimate(spearman(log_sigma, log_p), clusters),
        )


def without_each(subject: Subject, words: Sequence[str], image: Embedding) -> LeaveOneOut:
    """The changes as each word of one caption is left out."""
    variants = [words, *([*words[:i], *words[i + 1 :]] for i in range(len(words)))]
    embedded = embed_words(subject.model, variants)
    widths = mean_log_sigma(embedded)
    log_p: Float64[np.ndarray, " v"] = np.asarray(subject.model.score()(embedded, image), np.float64)[:, 0]
    return LeaveOneOut(
        tuple(words),
        tuple((widths[1:] - widths[0]).tolist()),
        tuple((log_p[1:] - log_p[0]).tolist()),
        float(np.exp(log_p[0])),
    )


def _telling(left: Sequence[LeaveOneOut], count: int) -> list[LeaveOneOut]:
    """Short captions with a good match in which one word changes most, each another word."""
    short = [caption for caption in left if len(caption.words) in SHOWN] or list(left)
    ordered = sorted(short, key=lambda caption: -max(caption.log_sigma) * caption.p)
    by_word = {caption.words[int(np.argmax(caption.log_sigma))]: caption for caption in reversed(ordered)}
    return [caption for caption in ordered if caption in by_word.values()][:count]


def _words(axes: style.Axes, words: Sequence[WordInfluence]) -> None:
    ends = words if len(words) <= 2 * ENDS_SHOWN else [*words[:ENDS_SHOWN], *words[-ENDS_SHOWN:]]
    rows = range(len(ends))
    axes.barh(rows, [word.log_sigma for word in ends], color=style.PALETTE[0], height=0.75)
    axes.axvline(0, color=style.INK, linewidth=0.8)
    if len(words) > 2 * ENDS_SHOWN:
        axes.axhline(ENDS_SHOWN - 0.5, color=style.INK, linestyle=":", linewidth=1)
    axes.set_yticks(rows, [f"{style.shortened(word.word, 12)} ({word.times})" for word in ends])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set(title="words, on average", xlabel="change of mean log σ", ylabel="word (captions)")


def _example(axes: style.Axes, example: LeaveOneOut) -> None:
    rows = np.arange(len(example.words))
    axes.barh(rows - 0.2, example.log_sigma, 0.36, color=style.PALETTE[0], label="mean log σ")
    axes.barh(rows + 0.2, example.log_p, 0.36, color="white", edgecolor=style.PALETTE[4], label="log p, its image")
    axes.axvline(0, color=style.INK, linewidth=0.8)
    axes.set_yticks(rows, [style.shortened(word, 12) for word in example.words], fontsize=7.5)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_ylabel(f"p {example.p:.2f}")
