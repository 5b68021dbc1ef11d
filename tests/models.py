"""Models for every test: untrained ones by recipe, and two tiny runs trained once per session.

The runs are session fixtures of `tests/conftest.py`: `sigma_run` (aviary-tiny), `points_run` (the
same with InfoNCE, which has no σ). Tests that change a run take a copy: `copied(run, tmp_path)`.
"""

import shutil
from functools import cache

import torch

from pcme import recipes
from pcme.data.text.tokens import Vocab
from pcme.model import Model
from pcme.recipes.schema import Recipe

TINY = recipes.get("aviary-tiny")
SHORT = TINY.changed(["phases.0.epochs=1", "phases.1.epochs=1"])
POINTS = SHORT.changed(['method={"kind":"infonce"}'])
CAPTIONS = ("a small red bird with a blue wing", "a large green bird on a branch", "sky and water")


def build(recipe=TINY, *changes, captions=CAPTIONS, seed=0, spread=1.0):
    """A new model of a recipe (or of its name) that has learned nothing, in evaluation mode.

    `spread` > 1 multiplies the weights: an untrained model embeds nearly everything alike.
    """
    recipe = (recipe if isinstance(recipe, Recipe) else recipes.get(recipe)).changed(changes)
    vocab = Vocab.build(captions)
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.randn(len(vocab), recipe.words.dim, generator=generator)
    model = Model(recipe, vocab, vectors).eval()
    with torch.no_grad():
        for parameter in model.parameters() if spread != 1 else ():
            if parameter.ndim > 1:
                parameter.mul_(spread)
    return model


@cache
def untrained(*changes, recipe="aviary-tiny", seed=0, spread=1.0):
    """`build`, made once: for tests that only read the model."""
    return build(recipe, *changes, seed=seed, spread=spread)


def copied(run, folder):
    """A copy of a run's folder that a test may change."""
    return shutil.copytree(run, folder, dirs_exist_ok=True)
