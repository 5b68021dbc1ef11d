"""Every row of the studies on photographs is a recipe, with each setting that is tried."""

import pytest

from pcme import methods, recipes
from studies.real.entries import ENTRIES, STUDIES, candidates, changes_of

ROWS = [(name, row) for name, study in STUDIES.items() for row in study.rows]


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_a_row_is_a_recipe_with_each_setting_that_is_tried(name, row):
    study, tried = STUDIES[name], list(candidates(ENTRIES[row]))
    made = [recipes.get(study.recipe).changed([*study.always, *changes_of(study, row, setting)]) for setting in tried]
    found = [methods.registry.from_record({"kind": r.method.kind, **r.method.params}) for r in made]
    knobs = [getattr(method, ENTRIES[row].knob) for method in found]
    assert knobs == [setting[f"method.{ENTRIES[row].knob}"] for setting in tried]
    assert [recipe.phases[0].learning_rate for recipe in made] == [
        setting["phases.0.learning_rate"] for setting in tried
    ]


def test_parameters_of_all_methods_go_to_those_that_have_them():
    first = {row: changes_of(STUDIES["cub"], row, {})[0] for row in ("VSE0", "VSRN")}
    assert first == {
        "VSE0": 'method={"attention_hidden": 128, "positives": "diagonal", "kind": "vse0"}',
        "VSRN": 'method={"positives": "diagonal", "kind": "vsrn", "caption_hidden": 128, "caption_words": 64}',
    }
