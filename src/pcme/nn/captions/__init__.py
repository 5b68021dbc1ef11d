"""Caption backbones by name. Every module of this package is imported: a new one is one file.

>>> create("precomputed", features=512)
Precomputed(features=512)
>>> names()
['gru', 'hub', 'precomputed']
"""

import importlib
import pkgutil

from pcme.nn.backbone import CaptionBackbone, caption_backbones

__all__ = ["caption_backbones", "create", "names"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def create(name: str, **params: object) -> CaptionBackbone:
    """The backbone called `name` (or its alias), with these parameters."""
    return caption_backbones.create(name, **params)


def names() -> list[str]:
    """All canonical names, sorted."""
    return caption_backbones.names()
