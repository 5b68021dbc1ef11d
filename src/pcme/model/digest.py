"""The digest of everything that a model's embeddings depend on: it ties an index to its model."""

import hashlib
import json

import torch

from pcme.model.model import Model


def digest(model: Model) -> str:
    """SHA-256 of the weights, the words, and the part of the recipe that an embedding depends on.

    Two models with one digest make the same of every image and caption. Keys for training alone and the recipe's name
    do not count: a model may be renamed.
    """
    recipe = model.recipe
    parts = {"image": recipe.image, "caption": recipe.caption, "method": recipe.method}
    deciding = {
        **{name: {"kind": part.kind, **part.params} for name, part in parts.items()},
        "dim": recipe.dim,
        "size": recipe.augment.size,
        "crop": recipe.augment.crop,
        # only where it is set: an index from before there was this key keeps its model
        **({"resize": recipe.augment.resize} if recipe.augment.resize else {}),
        "words": model.vocab.words,
        "rule": model.vocab.rule,
    }
    seen = hashlib.sha256(json.dumps(deciding, sort_keys=True).encode())
    for name, tensor in sorted(model.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        seen.update(f"{name}:{values.dtype}:{tuple(values.shape)}".encode())
        seen.update(memoryview(values.flatten().view(torch.uint8).numpy()))
    return seen.hexdigest()
