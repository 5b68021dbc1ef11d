import pytest

from pcme.model.digest import digest
from tests.models import untrained


def digest_of(*changes):
    return digest(untrained("augment.crop=centre", *changes))


@pytest.mark.parametrize("change", ["augment.resize=16", "augment.crop=none", "augment.size=15"])
def test_other_pixels_are_another_model(change):
    assert digest_of(change) != digest_of()


def test_keys_for_training_do_not_count():
    assert digest_of("name=other", "augment.flip=true", "phases.0.epochs=9") == digest_of()
