"""A recipe in one file: all that the package brings, trained together."""

from pcme.recipes import register
from pcme.recipes.schema import Augment, Phase, Recipe, Sampling, Validation, Words, part

register(
    Recipe(
        name="flock",
        data=part("flock-squares", adjective="single"),
        image=part("flock-grid"),
        caption=part("flock-bag"),
        method=part("flock-logistic"),
        dim=8,
        words=Words(dim=8),
        augment=Augment(size=16, crop="none", word_drop=0.0),
        sampling=Sampling(batch_size=8),
        phases=(Phase(epochs=12, learning_rate=0.03, backbone="all"),),
        validation=Validation(every_epochs=12),
    )
)
