"""What the tests of analyses share: a small untrained model on a small world, embedded once."""

from functools import cache

from pcme.analysis import Subject
from pcme.data.aviary.dataset import Aviary
from pcme.data.problems import Problems
from pcme.evaluation import embed
from tests.models import build

WORLD = {"pixels": 16, "test_species": 8, "test_images": 3, "captions_per_image": 5}


@cache
def world():
    return Aviary(**WORLD).load("test")


@cache
def untrained(*changes):
    """A model that knows nothing, of the recipe aviary-tiny with some keys set."""
    return build("aviary-tiny", *changes, captions=world().captions)


@cache
def subject(*changes):
    model = untrained(*changes)
    return Subject.of(model, embed(model, world(), Problems()))


MEANS_ONLY = 'method={"kind":"pcme-mu"}'
NO_PROBABILITY = 'method={"kind":"vse0"}'
