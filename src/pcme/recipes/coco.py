"""Recipes for MS-COCO."""

from pcme.recipes.catalogue import variant
from pcme.recipes.cub import CUB
from pcme.recipes.schema import Augment, Phase, Sampling, Validation, part

COCO = variant(
    CUB,
    "coco",
    data=part("coco"),
    image=part("resnet", depth=152, weights="resnet152.pth"),
    method=part(
        "pcme", likelihood="sampled", scale=30.0, shift=30.0, kl_weight=0.00256,
        uniformity_weight=0.0, log_sigma_bounds="none",
    ),
    dim=1024,
    augment=Augment(size=224, crop="random-resized", flip=True, cutout=0.2, word_drop=0.1),
    sampling=Sampling(kind="pairs", batch_size=128),
    phases=(
        Phase(epochs=30, learning_rate=2e-4, backbone="frozen", words="frozen"),
        Phase(epochs=30, learning_rate=2e-5, backbone="all", words="trained"),
    ),
    validation=Validation(split="val", every_epochs=10, max_captions=25_000),
)  # fmt: skip
"""The paper's MS-COCO (§4.1, §C.2): as `cub`, but ResNet-152, 1,024 dimensions, batches of 128
pairs, random crops, β = 1e-5 and no uniformity (in our units, docs/science/errata.md). The second
learning rate, a tenth of the first, is that of the authors' code; the paper does not state it.
"""
