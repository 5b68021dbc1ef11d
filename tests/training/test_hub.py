import math

import pytest
import torch
from safetensors.torch import load_file

import pcme
from pcme.recipes import get
from pcme.training import train
from tests.data.formats.test_own import table
from tests.nn import tiny
from tests.training.trained import SHORT, losses

FEW = ["augment.size=16", "augment.resize=18", "dim=8", "phases.0.epochs=1", "phases.0.warmup_steps=1"]


def saved(make, folder):
    """A small model of transformers, and a recipe with heads on it."""
    sources = [f"{side}.source={folder}" for side in ("image", "caption")]
    return tiny.saved(make, folder, words=True), get("clip-heads").changed([*FEW, *sources])


@pytest.mark.parametrize(("make", "dim"), [(tiny.clip, 8), (tiny.siglip, 16)], ids=["CLIP", "SigLIP"])
def test_clip_heads_train_and_the_towers_stay(tmp_path, monkeypatch, make, dim):
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "cache"))
    photos, out = table(tmp_path / "photos"), tmp_path / "run"
    whole, recipe = saved(make, tmp_path / "towers")
    for resume in (False, True):
        train(recipe.changed([f"dim={dim}"]), out, data_root=photos, resume=resume)
    assert list(tmp_path.glob("cache/features/*/manifest.json"))
    assert len(losses(out)) == 2
    assert all(map(math.isfinite, losses(out)))
    state = load_file(out / "last" / "weights.safetensors")
    for side, tower in (("images.network", "vision_model"), ("captions.words", "text_model")):
        inside = f"{tower}." if make is tiny.clip else ""  # beside its projection
        for name, value in getattr(whole, tower).state_dict().items():
            assert torch.equal(state[f"{side}.tower.{inside}{name}"], value)
    (tmp_path / "towers").rename(tmp_path / "gone")
    model = pcme.load(out)
    assert model.encode_captions(["a red bird", "bird"]).mean.shape == (2, dim)
    assert model.encode_images([photos / "0.jpg"]).log_sigma.shape == (1, dim)


def test_a_text_tower_is_trained_where_it_is_asked_for(tmp_path):
    whole, recipe = saved(tiny.clip, tmp_path / "towers")
    photos = table(tmp_path / "photos")
    train(recipe.changed(["caption.train=true"]), tmp_path / "run", data_root=photos, workers=2)
    state = load_file(tmp_path / "run" / "last" / "weights.safetensors")
    name = "embeddings.token_embedding.weight"
    trained = state[f"captions.words.tower.text_model.{name}"]
    assert not torch.equal(trained, whole.text_model.state_dict()[name])


def test_a_tower_trains_on_captions_that_are_written_afresh(tmp_path):
    """What a dropped word said is unsaid, whatever the tokeniser takes for a word."""
    tiny.saved(tiny.bert, tmp_path / "bert", words=True)
    train(SHORT.changed([f'caption={{"kind": "hub", "source": "{tmp_path / "bert"}"}}']), tmp_path / "run", workers=0)
    assert all(map(math.isfinite, losses(tmp_path / "run")))
