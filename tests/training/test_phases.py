"""Phases: which parameters learn, which are held, and at what rate."""

import json
from collections import Counter

import pytest
import torch
from torch import nn

from pcme import recipes
from pcme.data.loading.features import FeatureCache
from pcme.errors import ConfigError
from pcme.recipes.schema import Phase
from pcme.training import train
from pcme.training.phases import set_mode, trained_groups
from tests.models import build
from tests.training.trained import SHORT, Notes, weights


@pytest.fixture
def model():
    return build()


def trained(model, groups):
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {names[id(p)]: group["factor"] for group in groups for p in group["params"]}


def phase(**options):
    return Phase(epochs=1, learning_rate=1e-3, **options)


@pytest.mark.parametrize(("backbone", "held"), [("frozen", {0, 1}), ("all", set()), (1, {0}), (2, set()), (9, set())])
def test_the_last_blocks_learn_and_the_others_are_held(model, backbone, held):
    """More blocks than there are is all of them."""
    chosen = phase(backbone=backbone)
    found = trained(model, trained_groups(model, None, chosen, words=True))
    set_mode(model, chosen)
    for number, block in enumerate(model.images.network.blocks()):
        prefix = f"images.network.stack.{number}."
        assert any(name.startswith(prefix) for name in found) == (number not in held)
        assert block.training == (number not in held)
        assert all(p.requires_grad == (number not in held) for p in block.parameters())


def test_factors_and_words(model):
    chosen = phase(backbone="all", backbone_factor=0.1, sigma_factor=0.5)
    found = trained(model, trained_groups(model, None, chosen, words=False))
    for name, factor in found.items():
        expected = 0.1 if name.startswith("images.network.") else 1.0
        assert factor == (0.5 if ".heads.sigma." in name else expected)
    assert "captions.words.words.weight" not in found
    assert "objective.scale" in found


def test_labels_train_the_backbone_and_the_probe_alone(model):
    probe = nn.Linear(16, 3)
    (group,) = trained_groups(model, probe, phase(task="labels"), words=True)
    expected = [*model.images.network.parameters(), *probe.parameters()]
    assert {id(p) for p in group["params"]} == {id(p) for p in expected}
    assert not model.objective.scale.requires_grad


@pytest.mark.parametrize("wrong", [0, -1, "some"])
def test_a_number_of_blocks_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ConfigError, match="backbone"):
        recipes.get("aviary-tiny").changed([f"phases.0.backbone={wrong}"])


def kept_parts(root):
    """How many caches there are of each split."""
    found = (root / "cache" / "features").glob("*/manifest.json")
    return Counter(path.parent.name.split("-")[1] for path in found)


CUT = SHORT.changed(["phases.1.backbone=1"])


def test_blocks_that_are_held_are_computed_once(tmp_path, monkeypatch):
    """The last block learns from kept maps as it does from pixels, to half precision."""
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "cache"))
    train(CUT, tmp_path / "kept")
    held = "images.network.stack.0."
    monkeypatch.setattr("pcme.nn.images.convnet.ConvNetwork.chained", False)
    train(CUT, tmp_path / "pixels")
    kept, pixels = weights(tmp_path / "kept" / "last"), weights(tmp_path / "pixels" / "last")
    assert kept_parts(tmp_path) == {"train": 2, "val": 1}
    for name, value in kept.items():
        same = torch.equal(value, pixels[name])
        assert same if name.startswith(held) else torch.allclose(value, pixels[name], atol=0.02)


def passes(monkeypatch, phases, folder):
    """How many times each training image goes through the first block before it is embedded."""
    asked = []
    real = FeatureCache.open_or_compute.__func__

    def noted(cls, place, dataset, transform, stages, **options):
        missing = {p.parent.name for p in place.glob("*/manifest.json")}
        found = real(cls, place, dataset, transform, stages, **options)
        asked.append(any(cache.folder.name not in missing for cache in found))
        return found

    monkeypatch.setenv("PCME_CACHE", str(folder / "cache"))
    monkeypatch.setattr(FeatureCache, "open_or_compute", classmethod(noted))
    train(SHORT.changed([f"phases={json.dumps(phases)}"]), folder / "run")
    monkeypatch.undo()
    return sum(asked) - 1  # one is of the validation images


def test_what_a_later_phase_takes_is_kept_in_the_same_pass(tmp_path, monkeypatch):
    """Unless a phase in between changes the blocks it comes from."""
    epoch = {"epochs": 1, "learning_rate": 1e-3}
    frozen, cut = {**epoch, "backbone": "frozen"}, {**epoch, "backbone": 1}
    assert passes(monkeypatch, [frozen, cut], tmp_path / "ahead") == 1
    assert kept_parts(tmp_path / "ahead") == {"train": 2, "val": 1}
    whole = {**epoch, "backbone": "all"}
    assert passes(monkeypatch, [frozen, whole, cut], tmp_path / "changed") == 2


def test_an_augmented_image_is_kept_in_as_many_views_as_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "cache"))
    flipped = CUT.changed(["augment.flip=true"])
    notes = Notes()
    train(flipped, tmp_path / "afresh", reporter=notes)
    assert sum("augment.views" in text for text in notes.texts) == 2
    assert kept_parts(tmp_path) == {"val": 1}
    train(flipped.changed(["augment.views=3"]), tmp_path / "kept")
    assert kept_parts(tmp_path) == {"train": 6, "val": 1}


def test_where_every_block_learns_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "cache"))
    train(CUT.changed(["phases.1.backbone=2"]), tmp_path / "run")
    assert kept_parts(tmp_path) == {"train": 1, "val": 1}


def test_equal_phases_are_told_apart(tmp_path, monkeypatch):
    """After a phase that trains the backbone, its features are this run's own, and not cached."""
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "cache"))
    frozen = {"epochs": 1, "learning_rate": 1e-3}
    phases = [frozen, {**frozen, "backbone": "all"}, frozen]
    train(SHORT.changed([f"phases={json.dumps(phases)}"]), tmp_path / "run")
    assert kept_parts(tmp_path) == {"train": 2, "val": 1}
