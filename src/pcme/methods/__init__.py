"""Methods by name. Every module of this package is imported, so a new method is one file.

>>> create("pcme-overlap").likelihood
'overlap'
"""

import importlib
import pkgutil

from pcme.methods.base import Method, Objective, Terms, registry

__all__ = ["Method", "Objective", "Terms", "create", "names", "registry"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def create(name: str, **params: object) -> Method:
    """The method called `name`, with these parameters."""
    return registry.create(name, **params)


def names() -> list[str]:
    """All names, sorted."""
    return registry.names()
