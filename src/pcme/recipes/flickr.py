"""Recipes for Flickr8k."""

from pcme.recipes.catalogue import variant
from pcme.recipes.cub import CUB_EFFNET
from pcme.recipes.schema import Phase, Validation, part

FLICKR8K_EFFNET = variant(
    CUB_EFFNET,
    "flickr8k-effnet",
    data=part("flickr8k"),
    method=part("pcme", kl_weight=0.064, attention_hidden=128),
    augment=CUB_EFFNET.augment.model_copy(update={"crop": "centre"}),
    phases=(Phase(epochs=6, learning_rate=1e-2, warmup_steps=50, sigma_factor=0.1),),
    validation=Validation(split="dev", every_epochs=2),
)
"""Flickr8k as `cub-effnet` does CUB; a caption matches its image alone, and a batch is 128 of them.
With Karpathy's file, whose splits have other names, `--set validation.split=val`.
"""
