"""Recipes by name: each a small difference from another, with the paper's section.

>>> "aviary" in names()
True
>>> get("aviary").method.kind
'pcme-overlap'
"""

import difflib
from typing import Any

from pcme.errors import ConfigError
from pcme.recipe import Augment, Phase, Recipe, Sampling, Validation, Words, part

__all__ = ["difference", "get", "names"]

AVIARY = Recipe(
    name="aviary",
    data=part("aviary"),
    image=part("convnet", widths=[24, 48, 96, 128]),
    method=part("pcme-overlap"),
    dim=128,
    words=Words(dim=64),
    augment=Augment(size=64, crop="none", word_drop=0.0),
    sampling=Sampling(batch_size=128, afresh=True),
    phases=(
        Phase(epochs=12, learning_rate=5e-3, warmup_steps=30, task="labels"),
        Phase(epochs=42, learning_rate=4e-3, warmup_steps=50, backbone="frozen"),
    ),
    validation=Validation(every_epochs=14),
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

_ALL = {recipe.name: recipe for recipe in (AVIARY, AVIARY_TINY)}


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
