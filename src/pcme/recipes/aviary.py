"""Recipes for Aviary, the drawn world of birds."""

from pcme.recipes.catalogue import register, variant
from pcme.recipes.schema import Augment, Phase, Recipe, Sampling, Validation, Words, part

AVIARY = register(
    Recipe(
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
)
"""The embedded world in a few minutes: the backbone learns the training birds' labels (the paper's
comes from ImageNet), then the heads learn from captions, new ones at every step."""

AVIARY_TINY = variant(
    AVIARY,
    "aviary-tiny",
    data=part("aviary", pixels=16, train_species=24, val_species=6, val_images=3, captions_per_image=4),
    image=part("convnet", widths=[8, 16]),
    dim=16,
    words=Words(dim=8),
    augment=Augment(size=16, crop="none", word_drop=0.1),
    sampling=Sampling(batch_size=24, afresh=True),
    phases=(
        Phase(epochs=2, learning_rate=3e-3, warmup_steps=2, backbone="frozen"),
        Phase(epochs=2, learning_rate=1e-3, warmup_steps=2, backbone="all"),
    ),
    validation=Validation(every_epochs=1),
)
"""For tests: a few seconds, both phases."""
