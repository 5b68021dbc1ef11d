import pytest

from pcme.model.authors.to_recipe import dataset

PLAIN, CUB = ({"criterion": criterion} for criterion in ({}, {"uniform_lambda": 10}))


@pytest.mark.parametrize(
    ("config", "words", "expected"),
    [(None, 2_151, "cub"), (CUB, 11_755, "coco"), (CUB, 11, "cub"), (PLAIN, 11, "unknown"), (None, 11, "unknown")],
)
def test_the_dataset_is_that_of_the_vocabulary_or_unknown(config, words, expected):
    assert dataset(config, words, "x.pth") == expected
