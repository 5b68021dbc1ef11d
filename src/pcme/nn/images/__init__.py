"""Image backbones by name. Every module of this package is imported: a new one is one file.

>>> create("precomputed", features=512)
Precomputed(features=512)
>>> "resnet" in names()
True
"""

import importlib
import pkgutil

from pcme.nn.backbone import ImageBackbone, image_backbones

__all__ = ["create", "image_backbones", "names"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def create(name: str, **params: object) -> ImageBackbone:
    """The backbone called `name` (or its alias), with these parameters."""
    return image_backbones.create(name, **params)


def names() -> list[str]:
    """All canonical names, sorted."""
    return image_backbones.names()
