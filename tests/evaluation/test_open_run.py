"""Opening a run: its data, its split, cached features, clear errors."""

import pytest
import torch

from pcme import data, recipes
from pcme.errors import ConfigError, FormatError
from pcme.evaluation.open_run import find_dataset, load_split, open_run
from tests.evaluation.models import untrained
from tests.helpers import picture


def test_features_of_a_backbone_that_is_frozen_are_cached(tmp_path, monkeypatch):
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "cache"))
    frozen = untrained(tmp_path / "frozen", "phases.1.backbone=frozen")
    first = open_run(frozen).embedded
    assert any((tmp_path / "cache").rglob("*"))
    monkeypatch.setattr("pcme.data.aviary.dataset.Drawn.load", lambda *_: pytest.fail("drawn again"))
    again = open_run(frozen).embedded
    assert torch.equal(first.images.mean, again.images.mean)


def own_folder(root):
    """A dataset of our own: four pictures in a table, one split."""
    pictures = [picture(root / f"{number}.jpg") for number in range(4)]
    lines = [f"{path.name},bird number {path.stem}" for path in pictures]
    (root / "captions.csv").write_text("\n".join(["image,caption", *lines]))
    return root


def test_images_that_were_held_back_are_a_split(tmp_path):
    root = own_folder(tmp_path / "photos")
    recipe = recipes.get("own").changed(["data.kind=table", "train_split=all", "validation.share=0.5"])
    held = load_split(recipe, "val", data_root=root)
    rest, again = data.find(root).load(recipe.train_split).divided(0.5)
    assert tuple(held.captions) == tuple(again.captions)
    assert not {*held.captions} & {*rest.captions}
    with pytest.raises(ConfigError, match=r'no split "test", it has all, val \(held out\)'):
        load_split(recipe, "test", data_root=root)


def test_data_is_looked_for_where_the_user_says_and_its_fields_hold_wherever_it_is(tmp_path, monkeypatch):
    monkeypatch.delenv("PCME_DATA", raising=False)
    recipe = recipes.get("cub")
    with pytest.raises(ConfigError, match="PCME_DATA is not set"):
        find_dataset(recipe)
    assert find_dataset(recipe, tmp_path).root == tmp_path
    assert find_dataset(recipe.changed([f'data.root="{tmp_path}"'])).root == tmp_path
    (tmp_path / "cub").mkdir()
    monkeypatch.setenv("PCME_DATA", str(tmp_path))
    assert find_dataset(recipe).root == tmp_path / "cub"
    own_folder(tmp_path / "table")
    recipe = recipes.get("own").changed(["data.kind=table", "data.match=class"])
    assert find_dataset(recipe).match == "class"
    with pytest.raises(ConfigError, match='"mach" is not a field'):
        find_dataset(recipe.changed(["data.mach=class"]))


def test_a_run_is_opened_without_reading_its_split(tmp_path, monkeypatch):
    folder = untrained(tmp_path)
    monkeypatch.setattr("pcme.data.aviary.dataset.Aviary.load", lambda *_: pytest.fail("loaded"))
    subject = open_run(folder)
    monkeypatch.undo()
    assert subject.dataset.where == "aviary/test"
    assert subject.embedded is subject.embedded
    assert subject.protocol.dataset == "aviary/test"
    assert open_run(subject.model).model is subject.model


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match='no split "tets", it has train, val, test'):
        load_split(recipes.get("aviary-tiny"), "tets")
    with pytest.raises(FormatError, match=r"recipe\.json"):
        open_run(tmp_path)
    with pytest.raises(ConfigError, match="aviary: is drawn"):
        find_dataset(recipes.get("aviary-tiny"), tmp_path)
