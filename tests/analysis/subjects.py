"""What the tests of analyses share: a small untrained model on a small world, embedded once."""

from functools import cache

import torch

from pcme import recipes
from pcme.analysis import Subject
from pcme.data.aviary.dataset import Aviary
from pcme.data.problems import Problems
from pcme.data.text.tokens import Vocab
from pcme.evaluation import embed
from pcme.model import Model

WORLD = {"pixels": 16, "test_species": 8, "test_images": 3, "captions_per_image": 5}


@cache
def world():
    return Aviary(**WORLD).load("test")


@cache
def untrained(*changes):
    """A model that knows nothing, of the recipe aviary-tiny with some keys set."""
    recipe = recipes.get("aviary-tiny").changed(list(changes))
    vocab = Vocab.build(world().captions, 1)
    vectors = torch.randn(len(vocab), 8, generator=torch.Generator().manual_seed(0))
    return Model(recipe, vocab, vectors).eval()


@cache
def subject(*changes):
    model = untrained(*changes)
    return Subject.of(model, embed(model, world(), Problems()))


MEANS_ONLY = 'method={"kind":"pcme-mu"}'
NO_PROBABILITY = 'method={"kind":"vse0"}'
