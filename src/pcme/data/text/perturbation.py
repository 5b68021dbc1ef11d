"""Perturbed captions: words dropped, erased or appended, for augmentation and analyses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pcme.core.checks import require
from pcme.core.random import numpy_stream
from pcme.data.text.tokens import UNKNOWN
from pcme.errors import ConfigError


@dataclass(frozen=True)
class WordAugmentation:
    """The augmentation of a training caption: any number of words erased, or else the paper's caption dropping.

    `erasing` is the share of captions of which any number of words becomes `<unk>`, `drop` the ratio of dropping.
    """

    drop: float = 0.0
    erasing: float = 0.0

    def apply(self, words: Sequence[str], generator: np.random.Generator) -> list[str]:
        """The words that are left."""
        if self.erasing and generator.random() < self.erasing:
            return erase_words(words, generator, generator.random())
        return drop_words(words, generator, self.drop) if self.drop else list(words)

    def view(self, words: Sequence[str], number: int, caption: int) -> list[str]:
        """Draw `number` of a dataset's caption; all runs share it, whatever their seed.

        >>> len(WordAugmentation(drop=0.5).view(["a", "small", "bird"], 0, 7))
        2
        """
        return self.apply(words, numpy_stream(0, "caption view", number, caption))

    @property
    def deterministic(self) -> bool:
        """Whether it leaves all words."""
        return not (self.drop or self.erasing)


def drop_words(words: Sequence[str], generator: np.random.Generator, ratio: float = 0.1) -> list[str]:
    """The words after caption dropping. Paper: §4.1 (training augmentation).

    Each of the L words becomes `<unk>` with probability `ratio`; then ⌊ratio·L⌋ words drawn at random, known or not,
    are deleted, but one always stays. Differs: the paper says "erasing ratio 0.1"; the authors' code does this.
    """
    _require_share(ratio)
    length = len(words)
    unknown = generator.random(length) < ratio
    # 0.29 * 100 is a hair below 29; a product that close to a whole number is meant to be one.
    count = max(0, min(math.floor(ratio * length + 1e-9), length - 1))
    deleted = set(generator.permutation(length)[:count].tolist())
    return [UNKNOWN if unknown[i] else word for i, word in enumerate(words) if i not in deleted]


def erase_words(words: Sequence[str], generator: np.random.Generator, ratio: float) -> list[str]:
    """The words with round(ratio·L) of them, drawn at random, replaced by `<unk>`.

    Nested: with the same seed, a larger ratio erases every word that a smaller one does.

    >>> erase_words(["a", "small", "bird"], np.random.default_rng(0), 1.0)
    ['<unk>', '<unk>', '<unk>']
    """
    _require_share(ratio)
    erased = set(generator.permutation(len(words))[: round(ratio * len(words))].tolist())
    return [UNKNOWN if i in erased else word for i, word in enumerate(words)]


def append_unknown(words: Sequence[str], *, count: int | None = None, ratio: float | None = None) -> list[str]:
    """The words followed by `count`, or round(ratio·L), times `<unk>`. Paper: §F.1.

    >>> append_unknown(["a", "bird"], count=1)
    ['a', 'bird', '<unk>']
    """
    if (count is None) == (ratio is None):
        raise ConfigError(f"count, ratio: must be one of them, got count={count}, ratio={ratio}.")
    extra = round((ratio or 0.0) * len(words)) if count is None else count
    require("count, ratio", extra >= 0, "at least 0", extra)
    return [*words, *[UNKNOWN] * extra]


def _require_share(ratio: float) -> None:
    require("ratio", 0 <= ratio <= 1, "from 0 to 1", ratio)
