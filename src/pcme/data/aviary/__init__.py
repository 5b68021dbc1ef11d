"""Birds drawn by code, and captions whose every match is known.

>>> import numpy as np
>>> robin = facts_of(breast="red", bill="short")
>>> draw(robin, np.random.default_rng(0)).size
(64, 64)
>>> read(tokens("a small bird with a crimson breast")).tolist()
[-1, 0, -1, -1, -1, -1, 0, -1]
"""

from pcme.data.aviary.attributes import (
    ATTRIBUTES,
    LABELS,
    SPECIES,
    Attribute,
    facts_of,
    one_hot,
    species_facts,
    species_name,
)
from pcme.data.aviary.captions import compose, mentioned, read, tokens, write
from pcme.data.aviary.drawing import DRAWING_VERSION, MIN_PIXELS, draw

__all__ = [
    "ATTRIBUTES",
    "DRAWING_VERSION",
    "LABELS",
    "MIN_PIXELS",
    "SPECIES",
    "Attribute",
    "compose",
    "draw",
    "facts_of",
    "mentioned",
    "one_hot",
    "read",
    "species_facts",
    "species_name",
    "tokens",
    "write",
]
