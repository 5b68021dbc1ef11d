import numpy as np
import pytest

from pcme.data.aviary.attributes import BACKGROUND, SHAPE, SPECIES, facts_of, species_facts, species_name
from pcme.errors import ConfigError


def test_species_are_all_combinations_and_each_has_its_own_name():
    facts = species_facts(np.arange(SPECIES))
    assert facts.shape == (11_664, BACKGROUND)
    assert len(np.unique(facts, axis=0)) == SPECIES
    assert (facts.max(0) + 1).tolist() == list(SHAPE[:BACKGROUND])
    assert len(set(map(species_name, facts))) == SPECIES


@pytest.mark.parametrize("wrong", [{"crown": "pink"}, {"eye": "red"}])
def test_a_bird_that_cannot_be_is_an_error(wrong):
    with pytest.raises(ConfigError, match=r"no bird has it, .* Known: crown:red"):
        facts_of(**wrong)
