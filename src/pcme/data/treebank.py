"""The words of a caption by the rules of the Penn Treebank, which the authors' models were given.

Their vocabularies are made with nltk's `word_tokenize`: punctuation is words, "blue-grey" is one,
"isn't" and "cannot" are two. A model of theirs must read captions so, or it sees other words.
"""

import re

from pcme.errors import ConfigError

__all__ = ["treebank"]

_ABBREVIATIONS = frozenset({"dr", "etc", "jr", "mr", "mrs", "ms", "prof", "sr", "st", "vs"})


def treebank(caption: str) -> list[str]:
    """The words, numbers and punctuation of a caption in lower case.

    Differs: nltk finds the ends of sentences with a trained model; here a period before white space
    is one, unless it follows a single letter or a common abbreviation.

    >>> treebank("It's a bird's nest, 3/4 blue-grey; don't touch.")[:10]
    ['it', "'s", 'a', 'bird', "'s", 'nest', ',', '3/4', 'blue-grey', ';']
    >>> treebank("A man (cannot) ride. He falls.")
    ['a', 'man', '(', 'can', 'not', ')', 'ride', '.', 'he', 'falls', '.']
    """
    # One space at a time: on a long run of them some of the rules would take quadratic time.
    text = " ".join(caption.lower().split())
    return [word for sentence in _sentences(text) for word in _words(sentence)]


def _sentences(text: str) -> list[str]:
    found: list[str] = []
    for part in re.split(r"(?<=[.?!]) ", text):
        if found and _abbreviated(found[-1]):
            found[-1] += f" {part}"
        else:
            found.append(part)
    return found


def _abbreviated(sentence: str) -> bool:
    last = sentence.split()[-1:]
    stem = last[0][:-1] if last and last[0].endswith(".") else "?"
    return stem in _ABBREVIATIONS or (len(stem) == 1 and stem.isalpha())


def _words(sentence: str) -> list[str]:
    try:
        from nltk.tokenize import NLTKWordTokenizer
    except ImportError as error:
        raise ConfigError(
            "captions of the authors' models are split by nltk, which is not installed - pip "
            "install 'pcme[authors]'"
        ) from error
    return list(NLTKWordTokenizer().tokenize(sentence))
