import numpy as np
import pytest

from pcme.data.aviary.attributes import (
    ATTRIBUTES,
    BACKGROUND,
    LABELS,
    SHAPE,
    SPECIES,
    facts_of,
    one_hot,
    species_facts,
    species_name,
)
from pcme.errors import ConfigError


def test_species_are_all_combinations_and_each_has_its_own_name():
    facts = species_facts(np.arange(SPECIES))
    assert facts.shape == (11_664, BACKGROUND)
    assert len(np.unique(facts, axis=0)) == SPECIES
    assert (facts.max(0) + 1).tolist() == list(SHAPE[:BACKGROUND])
    assert len({species_name(row) for row in facts[::7]}) == len(facts[::7])


def test_a_species_name_tells_every_attribute_apart():
    base = facts_of(crown="red", breast="blue", wing="green")
    for column in range(BACKGROUND):
        other = base.copy()
        other[column] = (base[column] + 1) % SHAPE[column]
        assert species_name(other) != species_name(base)


def test_labels_say_what_the_facts_say():
    generator = np.random.default_rng(0)
    facts = generator.integers(0, SHAPE, (20, len(SHAPE)))
    for bird, row in zip(facts, one_hot(facts), strict=True):
        told = {LABELS[column] for column in np.flatnonzero(row)}
        assert told == {f"{a.name}:{a.values[v]}" for a, v in zip(ATTRIBUTES, bird, strict=True)}


@pytest.mark.parametrize("wrong", [{"crown": "pink"}, {"eye": "red"}])
def test_a_bird_that_cannot_be_is_an_error(wrong):
    with pytest.raises(ConfigError, match=r"no bird has it, .* Known: crown:red"):
        facts_of(**wrong)
