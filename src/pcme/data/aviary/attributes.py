"""The eight attributes of a bird: their values, and the species that they make.

A bird is a row of eight small integers, its *facts*: the index of its value among each attribute's `values`. The first
seven make its species; the background differs from image to image.
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int, Int64

from pcme.errors import ConfigError

COLOURS = ("red", "blue", "yellow", "green", "black", "white")


@dataclass(frozen=True)
class Attribute:
    """A property of birds, and how readily people mention it (`weight`)."""

    name: str
    values: tuple[str, ...]
    weight: float = 1.0


ATTRIBUTES = (
    Attribute("crown", COLOURS),
    Attribute("breast", COLOURS),
    Attribute("wing", COLOURS),
    Attribute("bill", ("short", "long", "hooked")),
    Attribute("pattern", ("plain", "striped", "spotted")),
    Attribute("tail", ("short", "long", "forked"), weight=0.5),
    Attribute("size", ("small", "large"), weight=0.5),
    Attribute("background", ("branch", "water", "sky")),
)
"""In the order of the columns of facts. Size and tail are mentioned half as readily."""

CROWN, BREAST, WING, BILL, PATTERN, TAIL, SIZE, BACKGROUND = range(len(ATTRIBUTES))

SHAPE = tuple(len(attribute.values) for attribute in ATTRIBUTES)
SPECIES = math.prod(SHAPE[:BACKGROUND])
"""The number of species: 11,664."""
LABELS = tuple(f"{attribute.name}:{value}" for attribute in ATTRIBUTES for value in attribute.values)
"""The names of the columns of `one_hot`: "crown:red", "crown:blue", ..."""


def facts_of(**values: str) -> Int64[np.ndarray, " a"]:
    """The facts of a bird described by name; an attribute that is left out has its first value.

    >>> facts_of(crown="blue", tail="forked")
    array([1, 0, 0, 0, 0, 2, 0, 0])
    """
    known = {attribute.name: attribute for attribute in ATTRIBUTES}
    for name, value in values.items():
        if name not in known or value not in known[name].values:
            raise ConfigError(f"{name}: no bird has it, got {value}. Known: {', '.join(LABELS)}.")
    return np.array([a.values.index(values.get(a.name, a.values[0])) for a in ATTRIBUTES])


def species_facts(numbers: Int[np.ndarray, " s"]) -> Int64[np.ndarray, "s 7"]:
    """The facts without the background of each species, numbered from 0 to SPECIES - 1.

    >>> species_facts(np.array([0, SPECIES - 1]))
    array([[0, 0, 0, 0, 0, 0, 0],
           [5, 5, 5, 2, 2, 2, 1]])
    """
    return np.stack(np.unravel_index(numbers, SHAPE[:BACKGROUND]), 1).astype(np.int64)


def species_name(facts: Int[np.ndarray, " a"]) -> str:
    """A unique name for the bird's species; its three colours are those of crown, breast and wings.

    >>> species_name(facts_of(crown="red", breast="blue", wing="green", bill="hooked"))
    'lesser red-blue-green plain short-tailed hookbill'
    """
    crown, breast, wing, bill, pattern, tail, size = (
        attribute.values[value] for attribute, value in zip(ATTRIBUTES[:BACKGROUND], facts[:BACKGROUND], strict=True)
    )
    rank = {"small": "lesser", "large": "greater"}[size]
    return f"{rank} {crown}-{breast}-{wing} {pattern} {tail.removesuffix('ed')}-tailed {bill.removesuffix('ed')}bill"


def one_hot(facts: Int[np.ndarray, "n a"]) -> Bool[np.ndarray, "n l"]:
    """The facts as binary labels, in the order of LABELS.

    >>> one_hot(facts_of(crown="yellow")[None])[0, :6].astype(int)
    array([0, 0, 1, 0, 0, 0])
    """
    columns = zip(facts.T, SHAPE, strict=True)
    return np.concatenate([column[:, None] == np.arange(size) for column, size in columns], 1)
