"""Recipes by name: each a small difference from another, with the paper's section.

>>> "aviary" in names()
True
>>> get("aviary").method.kind
'pcme-overlap'
"""

from pcme.recipes import aviary, coco, cub, flickr, own, regions  # registered by being imported
from pcme.recipes.catalogue import difference, get, names, register, registered, variant

__all__ = ["aviary", "coco", "cub", "difference", "flickr", "get", "names", "own", "register"]
__all__ += ["BUILT_IN", "regions", "variant"]

BUILT_IN = registered()
"""The names of the recipes of this package; others come from plugins."""
