"""Which model an index belongs to: a digest of all that decides what a model makes of an item."""

import hashlib
import json

import torch

from pcme.model.model import Model


def digest(model: Model) -> str:
    """SHA-256 of the weights, the words, and what of the recipe an embedding depends on.

    Two models with one digest make the same of every picture and caption. What a recipe says about
    training alone, its name included, does not count: a model may be renamed.
    """
    seen = hashlib.sha256(json.dumps(_deciding(model), sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        seen.update(f"{name}:{values.dtype}:{tuple(values.shape)}".encode())
        seen.update(memoryview(values.flatten().view(torch.uint8).numpy()))
    return seen.hexdigest()


def _deciding(model: Model) -> dict[str, object]:
    recipe = model.recipe
    parts = {"image": recipe.image, "caption": recipe.caption, "method": recipe.method}
    return {
        **{name: {"kind": part.kind, **part.params} for name, part in parts.items()},
        "dim": recipe.dim,
        "size": recipe.augment.size,
        "crop": recipe.augment.crop,
        # only where it is set: an index from before there was this key keeps its model
        **({"resize": recipe.augment.resize} if recipe.augment.resize else {}),
        "words": model.vocab.words,
        "rule": model.vocab.rule,
    }
