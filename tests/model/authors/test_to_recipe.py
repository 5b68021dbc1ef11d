"""The recipe of an imported model: what was it trained on, and with how many samples."""

import pytest

from pcme.model.authors.sizes import Sizes
from pcme.model.authors.to_recipe import dataset, recipe

PLAIN, CUB = ({"model": {}, "criterion": criterion} for criterion in ({}, {"uniform_lambda": 10}))


@pytest.mark.parametrize(
    ("config", "words", "expected"),
    [(None, 2_151, "cub"), (CUB, 11_755, "coco"), (CUB, 11, "cub"), (PLAIN, 11, "unknown"), (None, 11, "unknown")],
)
def test_the_dataset_is_that_of_the_vocabulary_or_unknown(config, words, expected):
    assert dataset(config, words, "x.pth") == expected


@pytest.mark.parametrize(("model", "samples"), [({}, 7), ({"n_samples_inference": 3}, 3)])
def test_samples_are_those_of_the_config(model, samples):
    imported = recipe({**PLAIN, "model": model}, Sizes(18, 8, 6, 11), "unknown", "x.pth")
    assert imported.method.params["samples"] == samples
    assert (imported.name, imported.data.kind) == ("authors-unknown", "unknown")
