"""Image backbones by name. A new one is one class in one file.

>>> create("precomputed", features=512)
Precomputed(features=512)
>>> "resnet" in names()
True
"""

from pcme.nn.backbone import image_backbones

create = image_backbones.create
names = image_backbones.names
