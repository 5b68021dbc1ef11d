"""Caption backbones by name. A new one is one class in one file.

>>> create("precomputed", features=512)
Precomputed(features=512)
>>> names()
['gru', 'hub', 'joined', 'minilm', 'precomputed']
"""

from pcme.nn.backbone import caption_backbones

create = caption_backbones.create
names = caption_backbones.names
