"""Recipes for your own data: images, vectors of another model, heads on a frozen CLIP."""

from pcme.recipes.catalogue import variant
from pcme.recipes.flickr import FLICKR8K_EFFNET
from pcme.recipes.schema import Phase, Validation, Words, part

OWN = variant(
    FLICKR8K_EFFNET,
    "own",
    data=part("own"),
    phases=(Phase(epochs=20, learning_rate=1e-2, warmup_steps=10, sigma_factor=0.1),),
    validation=Validation(split="val"),
)
"""Your own images: `pcme train own --data-root my/photos --out runs/mine`. The folder may hold a
table of captions, images with text files, or WebDataset shards. Without a val split a tenth of the
images is held out (`--set data.share=0.2`). More epochs than for Flickr8k, and a shorter warm-up of
the learning rate: a small folder has one batch per epoch.
"""

VECTORS = variant(
    OWN,
    "vectors",
    data=part("precomputed"),
    image=part("precomputed", features=512),
    caption=part("precomputed", features=512),
    words=Words(),
    dim=512,
    means="given",
)
"""σ on top of vectors from CLIP or any model whose two sides agree: `pcme train vectors --data-root my/vectors --out
runs/mine`, with `--set image.features=768 --set caption.features=768 --set dim=768` for another width. Means are the
vectors themselves, which rank nearly as before; vectors of two models that know nothing of each other need `--set
means=learned`. The folder has `train/` and `val/` with NumPy files, see docs/guide/data.md.
"""

CLIP_HEADS = variant(
    OWN,
    "clip-heads",
    image=part("hub", source="openai/clip-vit-base-patch32", sites="vector"),
    caption=part("hub", source="openai/clip-vit-base-patch32"),
    words=Words(),
    augment=OWN.augment.model_copy(update={"resize": 224}),
    dim=512,
    means="given",
)
"""σ on top of a frozen CLIP, the quickest way to uncertainty for its users: `pip install 'pcme[hub]'` and `pcme train
clip-heads --data-root my/photos --out runs/mine`. Both towers stay frozen, and so do the vectors that they are compared
by, computed once from the pixels that CLIP's own processor cuts out: they are the means, and σ and the match
probability are learned. Another model, or a folder without a network, with `--set image.source=FOLDER --set
caption.source=FOLDER`, `--set dim=768` for longer vectors, and `--set augment.size=336 --set augment.resize=336` for
larger images. The schedule is that of `own`.
"""
