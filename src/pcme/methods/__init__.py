"""Methods by name. A new method is one class in one file.

>>> create("pcme-overlap").likelihood
'overlap'
"""

from pcme.methods.base import Method, Objective, Sizes, Terms, registry

__all__ = ["Method", "Objective", "Sizes", "Terms", "create", "names", "registry"]

create = registry.create
names = registry.names
