"""Runs without training: a model with random weights in a folder, in no time."""

import torch

from pcme import recipes
from pcme.data.text.tokens import Vocab
from pcme.model import Model

SMALL = ["data.test_species=4", "data.test_images=3", "data.val_species=3", "data.val_images=2"]


def untrained(folder, *changes, recipe="aviary-tiny", seed=0):
    """The folder of a run on Aviary whose model has learned nothing."""
    chosen = recipes.get(recipe).changed([*SMALL, f"seed={seed}", *changes])
    return saved(folder, chosen, seed=seed)


def saved(folder, chosen, *, seed=0):
    """The folder of a model of a recipe, untrained."""
    vocab = Vocab.build(["a small bird with a red head", "a large bird with a blue wing"])
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(len(vocab), chosen.words.dim, generator=generator)
    Model(chosen, vocab, vectors).save(folder)
    return folder
