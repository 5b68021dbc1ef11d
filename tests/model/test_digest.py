"""The digest of a model: what decides an embedding counts, and nothing else does."""

import pytest
import torch

from pcme import recipes
from pcme.data.text.tokens import Vocab
from pcme.model import Model
from pcme.model.digest import digest

TINY = recipes.get("aviary-tiny").changed(["augment.crop=centre"])


def digest_of(*changes):
    vocab = Vocab.build(["a red bird"])
    return digest(Model(TINY.changed(changes), vocab, torch.zeros(len(vocab), 8)))


@pytest.mark.parametrize("change", ["augment.resize=16", "augment.crop=none", "augment.size=15"])
def test_other_pixels_are_another_model(change):
    assert digest_of(change) != digest_of()


def test_what_is_said_of_training_does_not_count():
    assert digest_of("name=other", "augment.flip=true", "phases.0.epochs=9") == digest_of()
