"""Setups: rows become recipes; what differs is told with the recipe's own numbers."""

import json

import pytest

from pcme import methods, recipes
from pcme.reproduce.parts import MEANS, PCME
from pcme.reproduce.setups import SETUPS


def test_a_row_gets_the_parameters_of_the_setup_that_its_method_has():
    cub = SETUPS["cub-pairs"]
    pvse, pcme, mu = (
        cub.recipe(cub.assignments({"kind": kind}, quick=False)).method.params for kind in ("pvse", "pcme", "pcme-mu")
    )
    shared = {"positives": "diagonal", "attention_hidden": 128}
    assert pvse == {**shared, "warm_start": 0.8}, "as the search found"
    assert mu == {**shared, "scale": 10.0, "uniformity_weight": 0.03}, "as much as PCME"
    assert pcme == {**shared, "kl_weight": 0.064} == recipes.get("cub-effnet").method.params
    # What a row says of its method goes before what the setup says.
    assigned = cub.assignments({"kind": "pcme", "kl_weight": 0.0}, ("dim=8",), quick=True)
    assert json.loads(assigned[0].removeprefix("method="))["kl_weight"] == 0.0
    assert assigned[1:] == ["phases.0.learning_rate=0.01", *cub.quick, "dim=8"]
    assert SETUPS["cub"].assignments({"kind": "pcme"}, quick=True)[1] == 'sampling={"kind":"one-per-class"}'


def test_the_papers_coco_settings_are_those_of_the_recipe():
    coco = SETUPS["coco"]
    row = coco.recipe(coco.assignments({"kind": "pcme", "likelihood": "sampled"}, quick=False))
    assert row == recipes.get("coco")


@pytest.mark.parametrize("name", SETUPS)
def test_the_protocol_tells_the_recipe_it_is_about(name):
    found = SETUPS[name]
    full, quick = found.protocol(quick=False), found.protocol(quick=True)
    assert full != quick
    assert f"D = {recipes.get(found.base).dim}" in full
    assert "{" not in full + quick


def test_commands_ask_for_what_has_to_be_brought():
    assert SETUPS["aviary"].command("table2") == "pcme reproduce table2 --data aviary"
    assert "--data-root PATH" in SETUPS["cub"].command("table2")
    assert "--set image.weights=" in SETUPS["coco"].command("table3")
    assert "--set" not in SETUPS["coco"].command("table3", quick=True)
    changed = SETUPS["coco"].command("table3", seeds=2, changes=["dim=8", "words={}"])
    assert changed.endswith("--data-root PATH --seeds 2 --set dim=8 --set 'words={}'")


@pytest.mark.parametrize("name", SETUPS)
def test_with_and_without_sigma_the_regularisers_weigh_the_same(name):
    """Paper: §C.2 has one λ for a dataset; without σ there is nothing for the KL term."""
    weights = []
    for row in (PCME, MEANS):
        method = SETUPS[name].recipe(SETUPS[name].assignments(row, quick=False)).method
        weights.append(methods.create(method.kind, **method.params).weights)
    assert weights[0] | {"kl": 0.0} == weights[1]
