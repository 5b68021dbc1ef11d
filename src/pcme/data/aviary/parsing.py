"""Parse the statement that a caption makes about a bird, whether it was written here or by a user."""

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from jaxtyping import Int64

from pcme.data.aviary import lexicon
from pcme.data.aviary.attributes import ATTRIBUTES, BACKGROUND
from pcme.data.aviary.lexicon import Noun, Value
from pcme.retrieval.labels import UNSAID

_TOKEN = re.compile(r"<unk>|[^\W_]+")


def tokens(text: str) -> list[str]:
    """The words of a text in lower case, split at hyphens; <unk> is one word.

    >>> tokens("A red-crowned bird, with <unk> wings.")
    ['a', 'red', 'crowned', 'bird', 'with', '<unk>', 'wings']
    """
    return _TOKEN.findall(text.lower())


def read(words: Sequence[str]) -> Int64[np.ndarray, " a"]:
    """The value that the words say per attribute; UNSAID where they are silent.

    Two values for one attribute ("a red and blue crown") and denied ones ("no red crown") say nothing, nor does a word
    that is part of a colour's name ("sky blue wings" are blue).

    >>> read(tokens("a small bird with a red crown and <unk> wings, swimming"))
    array([ 0, -1, -1, -1, -1, -1,  0,  1])
    >>> read(tokens("no red-crowned bird: its breast is bright yellow and its bill is hooked"))
    array([-1,  2, -1,  2, -1, -1, -1, -1])
    """
    reader = _Reader()
    for word, following in pairwise((*words, "")):
        reader.hear(word, following)
    reader.pause()
    return np.array(reader.said, np.int64)


class _Reader:
    """Reads a caption word by word and remembers the words that may still belong together."""

    def __init__(self) -> None:
        self.said = [UNSAID] * len(ATTRIBUTES)
        self.contradicted: set[int] = set()
        self.values: list[Value] = []  # the value words just heard, which wait for their noun
        self.cut = False  # whether "and" came after them: the noun must follow another value
        self.noun: Noun | None = None  # the noun just heard, which "is" may follow
        self.subject: Noun | None = None  # the noun of "crown is", whose values may follow
        self.denied = False

    def hear(self, word: str, following: str) -> None:
        """Read a word, knowing the one after it."""
        if word in lexicon.VALUES:
            self.hear_value(lexicon.VALUES[word])
        elif word in lexicon.NOUNS:
            self.hear_noun(lexicon.NOUNS[word])
        elif word in lexicon.PLACE_WORDS and following not in lexicon.COLOURS:
            self.pause()
            self.say(BACKGROUND, lexicon.PLACE_WORDS[word])
            self.denied = False
        elif word == "and" and (self.values or self.subject):
            self.hear_and()
        elif word in lexicon.COPULAS and self.noun:
            self.subject, self.noun = self.noun, None
        elif word in lexicon.NEGATIONS:
            self.values, self.noun, self.denied = [], None, True
        elif word not in lexicon.ADVERBS and not (word in lexicon.RELATIVES and self.noun):
            self.pause()

    def hear_value(self, value: Value) -> None:
        """Collect a value; one out of the English order begins anew: in "a red striped breast" the stripes are red."""
        if self.values and value.rank < self.values[-1].rank:
            self.values = []
        self.values.append(value)
        self.cut, self.noun = False, None

    def hear_noun(self, noun: Noun) -> None:
        """Give the values to their noun; "small red-crowned" leaves "small" to the bird.

        A value that is cut from its noun, or might belong to two ("crown is red wings"), says nothing.
        """
        values = [] if self.cut or self.subject else self.values
        self.bind(noun, values)
        rest = [value for value in values if noun.participle and noun.of not in value.says]
        self.values, self.cut, self.subject = rest, False, None
        self.noun = None if noun.participle else noun
        self.denied = self.denied and noun.participle

    def hear_and(self) -> None:
        """Close "crown is red" but let "and blue" follow; remember that "red and" lacks a noun."""
        if self.subject:
            self.bind(self.subject, self.values)
            self.values = []
        self.cut = bool(self.values)

    def pause(self) -> None:
        """Close the phrase: no word to come belongs to the words before."""
        if self.subject:
            self.bind(self.subject, self.values)
        self.values, self.cut, self.noun, self.subject = [], False, None, None

    def bind(self, noun: Noun, values: list[Value]) -> None:
        """Say those of the values that can be said of the noun."""
        for value in values:
            if noun.of in value.says:
                self.say(*value.says[noun.of])
        if values:
            self.denied = False

    def say(self, attribute: int, value: int) -> None:
        """Note a statement, unless it is denied or contradicts another."""
        if self.denied or attribute in self.contradicted:
            return
        if self.said[attribute] not in (UNSAID, value):
            self.contradicted.add(attribute)
            value = UNSAID
        self.said[attribute] = value
