import json
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from pcme import recipes, train
from pcme.errors import ConfigError
from pcme.recipes.schema import Augment, Phase, Recipe, Sampling, Validation, Words, from_file, part

PACKAGE = Path(recipes.__file__).parents[1]
TINY = recipes.get("aviary-tiny")


def test_a_recipe_cannot_be_changed_in_place():
    with pytest.raises(ValidationError):
        TINY.dim = 3


@pytest.mark.parametrize(
    ("assignment", "reads"),
    [
        ("seed=7", lambda r: r.seed == 7),
        ("method.samples=3", lambda r: r.method.params.get("samples") == 3),
        ("phases.1.epochs=9", lambda r: r.phases[1].epochs == 9),
        ("sampling.afresh=false", lambda r: r.sampling.afresh is False),
        ("method.positives=diagonal", lambda r: r.method.params.get("positives") == "diagonal"),
        ("words.vectors=null", lambda r: r.words.vectors is None),
        ("average=0.99", lambda r: r.average == 0.99),
        ("augment.resize=16", lambda r: r.augment.resize == 16),
        ("phases.0.words=frozen", lambda r: r.phases[0].words == "frozen"),
        ("caption.hidden=6", lambda r: r.caption.params == {"hidden": 6}),
        ("phases.1.text_tower=2", lambda r: r.phases[1].text_tower == 2),
        ("phases.1.text_tower=all", lambda r: r.phases[1].text_tower == "all"),
        ("phases.1.text_tower_factor=0.01", lambda r: r.phases[1].text_tower_factor == 0.01),
        ("augment.caption_views=4", lambda r: r.augment.caption_views == 4),
    ],
)
def test_one_key_is_set(assignment, reads):
    changed = TINY.changed([assignment])
    assert reads(changed)
    assert not reads(TINY) or changed == TINY


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("sede=7", 'Did you mean "seed"'),
        ("augment.resize=15", "augment.resize: the short side must be at least augment.size=16"),
        ("augment.cutoff=0.2", 'Did you mean "cutout"'),
        ("phases.0.epoch=3", 'Did you mean "epochs"'),
        ("phases.5.epochs=3", "position from 0 to 1"),
        ("metod.samples=3", 'Did you mean "method"'),
        ("dim=-1", "dim"),
        ("phases.0.words=held", "phases.0.words: .*'frozen' or 'trained'"),
        ("caption.hidden=7", "hidden: must be even"),
        ("phases.0.text_tower=-1", "phases.0.text_tower"),
        ("augment.caption_views=0", "augment.caption_views"),
        ("sampling.captions_per_image=2", "sampling.captions_per_image: needs .*sampling.afresh=false, got 2"),
        ("sampling.matches=image", "sampling.matches: needs .*sampling.afresh=false"),
        ("sampling.matches=class", "sampling.matches: .*'dataset' or 'image'"),
        ("seed.deep=1", "plain value"),
        ("seed", "key=value"),
        ("sampling.batch_size=many", "sampling.batch_size"),
        ("method.kind=infonse", 'Did you mean "infonce"'),
        ("method.sampels=3", 'Did you mean "samples"'),
    ],
)
def test_a_wrong_key_or_value_is_explained(tmp_path, assignment, message):
    """That of a part when it is built."""
    with pytest.raises(ConfigError, match=message):
        train(TINY.changed([assignment]), tmp_path)


def test_files(tmp_path):
    older = TINY.record()
    del older["sampling"]["classes_per_batch"]
    for record in (TINY.record(), older):
        (tmp_path / "mine.json").write_text(json.dumps(record))
        assert from_file(tmp_path / "mine.json") == TINY
    toml = tmp_path / "mine.toml"
    toml.write_text(
        'name = "mine"\nphases = [{epochs = 1, learning_rate = 1e-3}]\n'
        'data = {kind = "aviary"}\nimage = {kind = "convnet"}\nmethod = {kind = "pcme"}\n'
    )
    assert from_file(toml).method == part("pcme")
    (tmp_path / "bad.toml").write_text("name =")
    for name in ("bad.toml", "none.toml"):
        with pytest.raises(ConfigError, match=name):
            from_file(tmp_path / name)


def test_there_is_no_key_that_nothing_reads():
    """Every field of a recipe appears, as an attribute, in the code that builds or trains."""
    sources = [path for path in PACKAGE.rglob("*.py") if path.parent.name != "recipes"]
    source = "".join(path.read_text(encoding="utf-8") for path in sources)
    for model in (Recipe, Words, Augment, Sampling, Phase, Validation):
        for name in model.model_fields:
            assert re.search(rf"\.{name}\b", source), f"{model.__name__}.{name} is read by nothing"


@pytest.mark.parametrize(
    ("recipe", "assignments", "part", "params"),
    [
        ("cub-effnet", ["method.kind=infonce"], "method", {"positives", "attention_hidden"}),
        ("cub-effnet", ["method.kind=hib"], "method", {"kl_weight", "attention_hidden"}),
        ("cub-effnet", ["method.kind=hib", "method.side=both"], "method", {"kl_weight", "attention_hidden", "side"}),
        ("cub", ["image.kind=convnet"], "image", set()),
        ("vectors", ["caption.kind=gru"], "caption", set()),
        ("aviary-tiny", ["data.kind=own"], "data", set()),
        ("cub-effnet", ["method.kind=pcme"], "method", {"kl_weight", "positives", "attention_hidden"}),
    ],
)  # fmt: skip
def test_another_kind_keeps_the_parameters_that_both_kinds_have(recipe, assignments, part, params):
    found = recipes.get(recipe).changed(assignments)
    assert set(getattr(found, part).params) == params


def test_another_kind_of_method_trains(tmp_path):
    changed = TINY.changed(["method.kl_weight=0.1", "method.kind=infonce"])
    assert changed.method == part("infonce")
    train(changed.changed(["phases.0.epochs=1", "phases.1.epochs=1"]), tmp_path, workers=0)


def test_several_captions_of_an_image_stand_in_batches_of_pairs():
    stays = recipes.get("cub-effnet")
    changed = stays.changed(["sampling.captions_per_image=4", "sampling.matches=image"])
    assert (changed.sampling.captions_per_image, changed.sampling.matches) == (4, "image")
    with pytest.raises(ConfigError, match=r"captions_per_image: above 1 needs sampling\.kind=pairs, got 4"):
        recipes.get("cub").changed(["sampling.captions_per_image=4"])
