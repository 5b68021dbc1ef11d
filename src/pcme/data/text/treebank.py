"""The words of a caption by the rules of the Penn Treebank, on which the authors' models were trained.

Their vocabularies are made with nltk's `word_tokenize`: punctuation marks are words, "blue-grey" is one, "isn't" and
"cannot" are two. Their models must read captions in the same form.
"""

import re
from functools import cache
from typing import Any

from pcme.data.text.punkt import sentences
from pcme.errors import ConfigError, DataError

_WIDE_SPACE = re.compile(r"(\s\s)\s+(\s)")


def treebank(caption: str) -> list[str]:
    """The words, numbers and punctuation of a caption in lower case.

    >>> treebank("It's a bird's nest, 3/4 blue-grey; don't touch.")[:10]
    ['it', "'s", 'a', 'bird', "'s", 'nest', ',', '3/4', 'blue-grey', ';']
    >>> treebank("A man (cannot) ride. He falls.")
    ['a', 'man', '(', 'can', 'not', ')', 'ride', '.', 'he', 'falls', '.']
    """
    # On long runs of white space some of the rules would take quadratic time. Three spaces do what many do, but one
    # does not: ". . ." is an ellipsis, and a quote depends on the character before it.
    text = _WIDE_SPACE.sub(r"\1\2", caption.lower())
    try:
        words = _tokenizer()
        return [word for sentence in sentences(text) for word in words.tokenize(sentence)]
    except ImportError as error:
        raise ConfigError(
            "nltk: is not installed, which splits captions of the authors' models. Run pip install 'pcme[authors]'."
        ) from error
    except TimeoutError as error:  # nltk's own guard against hostile text
        raise DataError(
            f'caption "{caption[:40]}...": takes nltk too long to split, got {len(caption):,} characters. Shorten it.'
        ) from error


@cache
def _tokenizer() -> Any:  # noqa: ANN401 - a class of a package that may not be there
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer()
