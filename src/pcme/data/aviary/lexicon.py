"""The words for birds: what the writer chooses from and what the reader knows, in one place.

No word, or pair of value and noun, means two things. "head" is no synonym of crown, because the cheeks have the colour
of the breast; "floating" is none of swimming, because one can float in the air.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType

from pcme.data.aviary.attributes import BILL, BREAST, CROWN, PATTERN, SIZE, TAIL, WING

Synonyms = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Words:
    """How an attribute is spoken of: synonyms of each value, of its noun, and "-crowned"."""

    values: Synonyms
    nouns: tuple[str, ...]
    participles: tuple[str, ...] = ()
    compounds: Synonyms = ()
    """What goes before a participle, where that is not the value itself: "fork-tailed"."""


_COLOURS: Synonyms = (
    ("red", "crimson", "scarlet"),
    ("blue", "azure", "cobalt"),
    ("yellow", "golden", "lemon"),
    ("green", "emerald", "jade"),
    ("black", "ebony", "sooty"),
    ("white", "snowy", "ivory"),
)
_BREAST = ("breast", "belly", "chest")
_LENGTHS: Synonyms = (("short", "stubby"), ("long", "elongated"))

WORDS: Mapping[int, Words] = MappingProxyType(
    {
        CROWN: Words(_COLOURS, ("crown", "cap"), ("crowned", "capped")),
        BREAST: Words(_COLOURS, _BREAST, ("breasted", "bellied", "chested")),
        WING: Words(_COLOURS, ("wings",), ("winged",)),
        BILL: Words(
            (*_LENGTHS, ("hooked", "curved")),
            ("bill", "beak"),
            ("billed", "beaked"),
            (("short",), ("long",), ("hook",)),
        ),
        PATTERN: Words((("plain", "unmarked"), ("striped", "streaked"), ("spotted", "speckled")), _BREAST),
        TAIL: Words((*_LENGTHS, ("forked", "split")), ("tail",), ("tailed",), (("short",), ("long",), ("fork",))),
        SIZE: Words((("small", "little", "tiny"), ("large", "big", "huge")), ("bird",)),
    }
)
"""The attributes that are said by a value and a noun, in the order of their columns."""

PLACES: Synonyms = (
    ("on a branch", "perched on a branch", "in a tree", "perched in a tree", "sitting on a twig"),
    ("on the water", "in the water", "swimming on a lake", "swimming in the water", "on a pond"),
    ("in the sky", "flying in the sky", "flying through the air", "up in the air", "in flight"),
)
"""How each background is written."""
PLACE_WORDS: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("branch", "branches", "twig", "tree", "trees", "bough", "perched", "perching"), 0),
        **dict.fromkeys(("water", "lake", "pond", "river", "sea", "swimming", "swims"), 1),
        **dict.fromkeys(("sky", "air", "flight", "flying", "flies"), 2),
    }
)
"""The background that each of these words says."""


@dataclass(frozen=True)
class Value:
    """A value word: the (attribute, value) it says of each noun."""

    says: Mapping[int, tuple[int, int]]
    rank: int
    """Its order before a noun: size, then shape or pattern, then colour."""


@dataclass(frozen=True)
class Noun:
    """A noun, by the attribute that is named after it (SIZE for the bird itself)."""

    of: int
    participle: bool = False


def _values() -> dict[str, Value]:
    says: defaultdict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for attribute, words in WORDS.items():
        nouns = (BREAST, SIZE) if attribute == PATTERN else (attribute,)  # "a striped breast", "a striped bird"
        for synonyms in (words.values, words.compounds):
            for value, group in enumerate(synonyms):
                for word, noun in product(group, nouns):
                    says[word][noun] = attribute, value
    ranks = {SIZE: 0, PATTERN: 1, BILL: 1, TAIL: 1, CROWN: 2, BREAST: 2, WING: 2}
    return {word: Value(of, ranks[next(iter(of.values()))[0]]) for word, of in says.items()}


VALUES: Mapping[str, Value] = MappingProxyType(_values())
NOUNS: Mapping[str, Noun] = MappingProxyType(
    {
        **{word: Noun(of) for of, words in WORDS.items() if of != PATTERN for word in words.nouns},
        **{word: Noun(of, True) for of, words in WORDS.items() for word in words.participles},
        "wing": Noun(WING),
        "it": Noun(SIZE),
    }
)
COLOURS = frozenset(word for group in _COLOURS for word in group)
COPULAS = frozenset({"is", "are", "was", "were", "looks", "look"})
RELATIVES = frozenset({"that", "which"})
NEGATIONS = frozenset({"no", "not", "without", "never", "neither", "nor", "n't"})
ADVERBS = frozenset({"bright", "dark", "light", "deep", "pale", "very", "quite", "really"})
"""Words that may stand within a phrase and change nothing."""
