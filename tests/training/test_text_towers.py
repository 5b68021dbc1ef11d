"""Text towers in a run: their states are cached where they are frozen, and their last layers learn."""

import json

import pytest
import torch
from safetensors.torch import load_file

import pcme
from pcme.data.loading import caption_states
from pcme.errors import ConfigError
from pcme.nn.captions.hub import HubCaptions
from pcme.training import train
from tests.nn import tiny
from tests.training.trained import SHORT, Notes, losses, same_run, train_cut, weights

WRITTEN = SHORT.changed(["sampling.afresh=false", "data.captions_per_image=2"])


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """Words beside a small text tower; captions that stay."""
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "cache"))
    tiny.saved(tiny.bert, tmp_path / "bert", words=True)
    parts = [{"kind": "gru"}, {"kind": "hub", "source": str(tmp_path / "bert")}]
    return WRITTEN.changed([f"caption={json.dumps({'kind': 'joined', 'parts': parts})}"])


@pytest.fixture
def computed(monkeypatch):
    """The names of the folders of states, as they are computed."""
    names, real = [], caption_states._compute
    monkeypatch.setattr(caption_states, "_compute", lambda final, *args: names.append(final.name) or real(final, *args))
    return names


def test_heads_learn_from_cached_states_as_from_the_tower(tmp_path, monkeypatch, recipe, computed):
    """The same words in both, for the draws are numbered; states have half the precision."""
    views = recipe.changed(["augment.caption_views=2"])
    train(views, tmp_path / "cached", workers=0)
    assert len(computed) == len(set(computed)) == 2
    real = HubCaptions.forward
    monkeypatch.setattr(HubCaptions, "forward", lambda self, ids, lengths=None, states=(): real(self, ids, lengths))
    train(views, tmp_path / "run again", workers=2)
    assert len(computed) == 2, "the second run found them"
    cached, again = (weights(tmp_path / name / "last") for name in ("cached", "run again"))
    for name, value in cached.items():
        assert torch.allclose(value, again[name], rtol=0, atol=0.02), name
    pairs = zip(losses(tmp_path / "cached"), losses(tmp_path / "run again"), strict=True)
    assert max(abs(left - right) for left, right in pairs) < 0.1


def test_a_cached_tower_is_not_run_in_training(tmp_path, monkeypatch, recipe):
    """Only validation, whose captions are as they are, has no states."""
    modes, real = [], HubCaptions.forward

    def watched(self, ids, lengths=None, states=()):
        modes.append((self.training or torch.is_grad_enabled(), bool(states)))
        return real(self, ids, lengths, states)

    monkeypatch.setattr(HubCaptions, "forward", watched)
    train(recipe.changed(["augment.caption_views=1"]), tmp_path / "run", workers=0)
    assert set(modes) == {(True, True), (False, False)}


def test_without_augmentation_one_view_is_all_there_is(tmp_path, recipe, computed):
    train(recipe.changed(["augment.caption_views=3", "augment.word_drop=0"]), tmp_path / "run", workers=0)
    assert len(computed) == 1


def test_who_does_not_cache_is_told_of_it(tmp_path, recipe, computed):
    notes = Notes()
    train(recipe, tmp_path / "run", workers=0, reporter=notes)
    assert any("augment.caption_views=4" in text for text in notes.texts)
    assert computed == []


def test_the_last_layer_learns_in_the_second_phase_also_after_a_cut(tmp_path, recipe, computed):
    """The first phase has its states cached; in the second the tower runs, and only its last layer moves."""
    learning = ["phases.1.text_tower=1", "phases.1.text_tower_factor=0.1", "phases.1.epochs=2"]
    changed = recipe.changed([*learning, "augment.caption_views=1"])
    train(changed, tmp_path / "straight", workers=0)
    assert len(computed) == 1
    before, tower = load_file(tmp_path / "bert" / "model.safetensors"), "captions.words.parts.1.tower."
    after = {name: value for name, value in weights(tmp_path / "straight" / "last").items() if name.startswith(tower)}
    moved = [name for name, value in after.items() if not torch.equal(value, before[name.removeprefix(tower)])]
    assert moved
    assert all(name.startswith(f"{tower}encoder.layer.1.") for name in moved)
    train_cut(changed, tmp_path / "cut", len(losses(tmp_path / "straight")) - 1, workers=0)
    train(changed, tmp_path / "cut", workers=0, resume=True)
    assert same_run(tmp_path / "cut", tmp_path / "straight")
    (tmp_path / "bert").rename(tmp_path / "gone")
    assert torch.isfinite(pcme.load(tmp_path / "cut").encode_captions(["a red bird"]).log_sigma).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (['caption={"kind": "gru"}', "phases.1.text_tower=1"], "phases.1.text_tower: needs .* gru has none"),
        (['caption={"kind": "gru"}', "augment.caption_views=2"], "augment.caption_views: needs a text tower"),
        (["caption.parts.1.pool=pooler", "augment.caption_views=2"], "means of tokens.*caption.pool=mean"),
        (["sampling.afresh=true", "augment.caption_views=2"], "captions that stay.*sampling.afresh=false"),
        (["phases.1.text_tower=0"], "text_tower"),
        (["phases.1.text_tower=last"], "text_tower"),
    ],
)
def test_settings_without_a_tower_for_them_are_refused(tmp_path, recipe, changes, message):
    with pytest.raises(ConfigError, match=message):
        train(recipe.changed(changes), tmp_path / "run", workers=0)
