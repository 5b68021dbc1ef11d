"""Settings on real birds: those of the search's record, and every row of an experiment has its method's."""

import json

import pytest

from pcme import methods, recipes
from pcme.reproduce import registry, settings
from pcme.reproduce.parts import BROAD, MEANS, OURS, PCME, at_once, pvse
from pcme.reproduce.setups import SETUPS
from studies.real.__main__ import chosen
from studies.real.entries import ENTRIES, STUDIES, changes_of

PAIRS = SETUPS["cub-pairs"]


@pytest.mark.parametrize("setting", settings.CUB, ids=lambda setting: setting.searched)
def test_a_method_is_trained_as_the_search_found_it(setting):
    row = setting.searched
    study = recipes.get(PAIRS.base).changed(changes_of(STUDIES["cub"], row, chosen("cub", row)))
    here = PAIRS.recipe(PAIRS.assignments(setting.of, quick=False))
    assert STUDIES["cub"].recipe == PAIRS.base
    assert methods.registry.from_record(here.method.model_dump()) == methods.registry.from_record(
        study.method.model_dump()
    )
    assert here.model_copy(update={"method": study.method}) == study


@pytest.mark.parametrize("world", ["cub", "cub-pairs"])
def test_every_row_of_a_method_that_was_searched_has_what_was_found(world):
    kinds, seen = {entry.method["kind"] for entry in ENTRIES.values()}, set()
    for name in registry.names():
        if world not in registry.get(name).setups:
            continue
        for row in (row for table in registry.create(name).tables(SETUPS[world]) for row in table.rows):
            if row.method.get("kind") in kinds:
                found = next((each for each in SETUPS[world].searched if each.fits(row.method)), None)
                assert found, f"{name}, {row.label}: add what the search found to pcme.reproduce.settings"
                given = {**found.params, **row.method}
                method = SETUPS[world].recipe(SETUPS[world].assignments(row.method, row.changes, quick=False)).method
                assert {key: method.params[key] for key in given if key != "kind"} == {
                    key: value for key, value in given.items() if key != "kind"
                }
                seen.add(found.searched)
    assert seen == {setting.searched for setting in settings.CUB}, "there are no settings that no row has"


@pytest.mark.parametrize(
    ("method", "row"),
    [
        (pvse(4, "all"), "PVSE K = 2, all"),
        (pvse(1), "PVSE K = 2, hardest"),
        (at_once(pvse(2)), "PVSE K = 2, hardest"),
        ({**PCME, "samples": 3}, "PCME, J = 7"),
        ({**PCME, "kind": "pcme-isotropic"}, "PCME, isotropic"),
        (MEANS, "PCME, μ only"),
        (OURS[0].method, "PCME, analytic"),
        (OURS[1].method, "**PCME, overlap**"),
        (BROAD.method, "**PCME, overlap, broad**"),
    ],
)
def test_forms_of_a_method_have_settings_of_their_own(method, row):
    assert next(each for each in settings.CUB if each.fits(method)).searched == row


def test_a_row_says_more_than_the_search():
    assigned = PAIRS.assignments(at_once(pvse(2)), quick=False)
    assert json.loads(assigned[0].removeprefix("method="))["warm_start"] == 0.0
    assert settings.settings_of({"kind": "hib"}, settings.CUB) == ({}, ())


def test_the_two_worlds_differ_by_their_batches_alone():
    rows = [setting.of for setting in settings.CUB]
    for row in rows:
        both = [SETUPS[name].recipe(SETUPS[name].assignments(row, quick=False)) for name in ("cub", "cub-pairs")]
        differences = set(recipes.difference(*both))
        assert differences == {"method.positives", "sampling.kind"}
        assert [recipe.sampling.kind for recipe in both] == ["one-per-class", "pairs"]
        assert [recipe.method.params["positives"] for recipe in both] == ["matches", "diagonal"]
