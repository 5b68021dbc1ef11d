"""Captions of birds, written from templates.

A caption mentions some of the eight attributes. Writer and reader share one lexicon, and the reader follows one rule:
*an attribute is said if and only if its value and its noun stand together*, as in "red crown", "red-crowned", "crown is
red", "small bird", "striped breast"; for the background one word is enough, such as "swimming". At least one word of
neither stands between two phrases. So a caption that loses a word or two, or has them replaced by <unk>, may say less,
but nothing false.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from jaxtyping import Bool, Float64, Int

from pcme.data.aviary.attributes import ATTRIBUTES, BACKGROUND, BREAST, CROWN, PATTERN, SIZE, WING
from pcme.data.aviary.lexicon import PLACES, WORDS

MENTIONS = (0.08, 0.18, 0.22, 0.20, 0.14, 0.10, 0.08)
"""How often a caption says none, one, two ... six attributes."""
UNKNOWN = "<unk>"
"""An unknown word; a phrase that lacks the word says nothing."""
HIDDEN = (0.4, 0.15)
"""How often a caption that says nothing, and one that says something, has an unknown word."""
UNKNOWN_PLACES = (f"on a {UNKNOWN}", f"in the {UNKNOWN}", f"near some {UNKNOWN}")

T = TypeVar("T")
Random = Callable[[], float]
Phrases = dict[int, tuple[str, str]]
"""The value and the noun of each attribute that is mentioned."""
Frames = Mapping[tuple[bool, bool], tuple[str, ...]]
"""Sentences by whether they mention parts, and a place."""

_LISTING: Frames = {
    (False, False): ("{a}", "this is {a}", "there is {a}", "a picture of {a}", "look at this {bird}", "just {a}"),
    (False, True): (
        "{a} {place}", "this {bird} is {place}", "there is {a} {place}", "a picture of {a} {place}",
        "look at this {bird} {place}", "the {bird} is {place}",
    ),
    (True, False): (
        "{a} with {parts}", "this {bird} has {parts}", "this is {a} with {parts}", "the {bird} has {parts}",
        "there is {a} with {parts}", "{a} that has {parts}", "a picture of {a} with {parts}",
        "look at this {bird} with {parts}", "{parts} on {a}",
    ),
    (True, True): (
        "{a} with {parts} {place}", "{a} {place} with {parts}", "this {bird} {place} has {parts}",
        "there is {a} with {parts} {place}", "this {bird} has {parts} and is {place}",
        "a picture of {a} {place} with {parts}", "look at this {bird} with {parts} {place}",
        "{place} there is {a} with {parts}",
    ),
}  # fmt: skip
_CLAUSES: Frames = {
    (True, False): ("{a} {parts}", "this is {a} {parts}", "there is {a} {parts}"),
    (True, True): ("{a} {place} {parts}", "there is {a} {place} {parts}"),
}
_SIZED: Frames = {
    (False, False): ("this {bird} is {size}", "the {bird} is {size}"),
    (False, True): ("this {bird} is {size} and {place}",),
    (True, False): ("this {bird} is {size} and has {parts}",),
    (True, True): ("this {bird} is {size} and {place} with {parts}",),
}

SUBSETS: Bool[np.ndarray, "subsets a"] = np.arange(2 ** len(ATTRIBUTES))[:, None] >> np.arange(len(ATTRIBUTES)) & 1 == 1
"""All sets of attributes: bit i of a set's number stands for attribute i."""


def _chances() -> Float64[np.ndarray, " subsets"]:
    """The probability that a caption says each of the SUBSETS, and nothing else.

    A set's size is drawn from MENTIONS, then its members one by one without replacement, each in proportion to its
    weight. The probability of a set is the sum over the member that came last.
    """
    weights = [attribute.weight for attribute in ATTRIBUTES]
    drawn = [1.0] + [0.0] * (len(SUBSETS) - 1)
    for chosen in range(1, len(SUBSETS)):
        for last in np.flatnonzero(SUBSETS[chosen]).tolist():
            before = chosen ^ 1 << last
            left = sum(w for w, gone in zip(weights, SUBSETS[before], strict=True) if not gone)
            drawn[chosen] += drawn[before] * weights[last] / left
    sizes = SUBSETS.sum(1).tolist()
    return np.array(drawn) * [MENTIONS[k] if k < len(MENTIONS) else 0.0 for k in sizes]


CHANCES = _chances()
_CUMULATIVE = np.cumsum(CHANCES) / CHANCES.sum()


def mentioned(count: int, generator: np.random.Generator) -> Bool[np.ndarray, "m a"]:
    """The attributes that each of `count` captions says.

    >>> int(mentioned(1000, np.random.default_rng(0)).sum(1).max())
    6
    """
    subsets: Bool[np.ndarray, "m a"] = SUBSETS[_CUMULATIVE.searchsorted(generator.random(count), side="right")]
    return subsets


def write(facts: Int[np.ndarray, " a"], generator: np.random.Generator) -> str:
    """A caption of a bird of which `facts` are true; the attributes it says are drawn at random.

    >>> from pcme.data.aviary.attributes import facts_of
    >>> write(facts_of(crown="red", tail="forked"), np.random.default_rng(3))
    'look at this red-crowned bird'
    """
    return compose(facts, mentioned(1, generator)[0], generator)


def compose(facts: Int[np.ndarray, " a"], said: Bool[np.ndarray, " a"], generator: np.random.Generator) -> str:
    """A caption that says exactly the attributes marked in `said`, in words drawn at random.

    >>> from pcme.data.aviary.attributes import facts_of
    >>> said = np.array([True, False, False, True, False, False, False, True])
    >>> compose(facts_of(crown="red", background="sky"), said, np.random.default_rng(0))
    'look at this bird with a crimson crown and a short bill in flight'
    """
    random, values, mentions = generator.random, facts.tolist(), said.tolist()
    phrases = {a: _phrase(a, values[a], random) for a in WORDS if mentions[a]}
    silent = [a for a, is_said in enumerate(mentions) if not is_said]
    hidden = _pick(silent, random) if silent and random() < HIDDEN[any(mentions)] else None
    places = PLACES[values[BACKGROUND]] if mentions[BACKGROUND] else ()
    if hidden == BACKGROUND:
        places = UNKNOWN_PLACES
    place = _pick(places, random) if places else ""
    if PATTERN in phrases and BREAST in phrases:  # "a striped belly" and "a red breast": "a striped red breast"
        colour, noun = phrases[BREAST]
        phrases[BREAST] = f"{phrases.pop(PATTERN)[0]} {colour}", noun
    adjectives = _compound(phrases, values, random)
    if hidden is not None and hidden in WORDS:
        value, noun = _phrase(hidden, values[hidden], random)
        hides_noun = hidden in (CROWN, BREAST) and random() < 0.5  # "a red <unk>" may be either
        phrases[hidden] = (value, UNKNOWN) if hides_noun else (UNKNOWN, noun)
    return _sentence(phrases, adjectives, place, random)


def _pick(options: Sequence[T], random: Random) -> T:
    return options[int(random() * len(options))]


def _phrase(attribute: int, value: int, random: Random) -> tuple[str, str]:
    words = WORDS[attribute]
    return _pick(words.values[value], random), _pick(words.nouns, random)


def _compound(phrases: Phrases, values: list[int], random: Random) -> str:
    """Now and then, take one phrase out and make it an adjective of the bird: "red-crowned "."""
    candidates = [a for a in phrases if WORDS[a].participles]
    if not candidates or random() > 0.25:
        return ""
    attribute = _pick(candidates, random)
    words, (value, _) = WORDS[attribute], phrases.pop(attribute)
    if words.compounds:
        value = _pick(words.compounds[values[attribute]], random)
    return f"{value}-{_pick(words.participles, random)} "


def _sentence(phrases: Phrases, adjectives: str, place: str, random: Random) -> str:
    size, bird = phrases.pop(SIZE, ("", ""))[0], f"{adjectives}bird"
    style, key = random(), (bool(phrases), bool(place))
    if size and style < 0.25:
        frames, parts = _SIZED, _listed(phrases, random)
    else:
        bird = f"{size} {bird}" if size else bird
        whose = bool(phrases) and style > 0.85
        frames = _CLAUSES if whose else _LISTING
        parts = (_clauses if whose else _listed)(phrases, random)
    return _pick(frames[key], random).format(a=_with_article(bird), bird=bird, size=size, parts=parts, place=place)


def _listed(phrases: Phrases, random: Random) -> str:
    """ "a red crown, a pair of blue wings and a long bill"; wings inside a list are counted, to stand apart."""
    order = _shuffled(phrases, random)
    items = []
    for i, attribute in enumerate(order):
        phrase = " ".join(phrases[attribute])
        counted = 0 < i < len(order) - 1 or random() < 0.2
        if attribute != WING:
            items.append(_with_article(phrase))
        else:
            items.append(f"a pair of {phrase}" if counted else phrase)
    return " and ".join(filter(None, (", ".join(items[:-1]), *items[-1:])))


def _clauses(phrases: Phrases, random: Random) -> str:
    """ "whose striped breast is red and whose wings are blue": a pattern stays with its noun."""
    clauses = []
    for attribute in _shuffled(phrases, random):
        value, noun = phrases[attribute]
        pattern, _, value = value.rpartition(" ")
        subject = f"{pattern} {noun}" if pattern else noun
        clauses.append(f"whose {subject} {'are' if attribute == WING else 'is'} {value}")
    return " and ".join(clauses)


def _shuffled(phrases: Phrases, random: Random) -> list[int]:
    return sorted(phrases, key=lambda _: random())


def _with_article(phrase: str) -> str:
    return f"{'an' if phrase[0] in 'aeiou' else 'a'} {phrase}"
