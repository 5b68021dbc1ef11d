"""Perturbed captions: words dropped, erased or appended, for augmentation and analyses."""

import math
from collections.abc import Sequence

import numpy as np

from pcme.data.text.tokens import UNKNOWN
from pcme.errors import ConfigError


def drop_words(words: Sequence[str], generator: np.random.Generator, ratio: float = 0.1) -> list[str]:
    """The words after caption dropping: some are `<unk>`, then ⌊ratio·L⌋ are gone, never all.

    Each of the L words becomes `<unk>` with probability `ratio`; then ⌊ratio·L⌋ words drawn at
    random, known or not, are deleted, but one always stays.

    Paper: §4.1 (training augmentation).
    Differs: the paper says "erasing ratio 0.1"; this is what the authors' code does with it.
    """
    length = len(words)
    unknown = generator.random(length) < _share(ratio)
    # 0.29 * 100 is a hair below 29; a product that close to a whole number is meant to be one.
    count = max(0, min(math.floor(ratio * length + 1e-9), length - 1))
    gone = set(generator.permutation(length)[:count].tolist())
    marked = [UNKNOWN if hide else word for word, hide in zip(words, unknown, strict=True)]
    return [word for position, word in enumerate(marked) if position not in gone]


def erase_words(words: Sequence[str], generator: np.random.Generator, ratio: float) -> list[str]:
    """The words with round(ratio·L) of them, drawn at random, replaced by `<unk>`.

    Nested: with the same seed, what a smaller ratio erases a larger one erases too.

    >>> erase_words(["a", "small", "bird"], np.random.default_rng(0), 1.0)
    ['<unk>', '<unk>', '<unk>']
    """
    count = round(_share(ratio) * len(words))
    erased = set(generator.permutation(len(words))[:count].tolist())
    return [UNKNOWN if position in erased else word for position, word in enumerate(words)]


def append_unknown(words: Sequence[str], *, count: int | None = None, ratio: float | None = None) -> list[str]:
    """The words followed by `count`, or round(ratio·L), times `<unk>`.

    Paper: §F.1.

    >>> append_unknown(["a", "bird"], count=1)
    ['a', 'bird', '<unk>']
    """
    if (count is None) == (ratio is None):
        raise ConfigError(f"count, ratio: must be one of them, got count={count}, ratio={ratio}.")
    extra = round((ratio or 0.0) * len(words)) if count is None else count
    if extra < 0:
        raise ConfigError(f"count or ratio: must be at least 0, got {extra} words to append.")
    return [*words, *[UNKNOWN] * extra]


def _share(ratio: float) -> float:
    if not 0 <= ratio <= 1:
        raise ConfigError(f"ratio: must be from 0 to 1, got {ratio}.")
    return ratio
