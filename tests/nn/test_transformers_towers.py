import json
import sys

import pytest
import torch

import pcme
from pcme.errors import ConfigError, DataError, FormatError
from tests import models
from tests.nn import tiny
from tests.training.trained import same

IMAGE_TOWERS = [*tiny.IMAGE_TOWERS, tiny.clip_vision, tiny.clip_vision_projecting]
SAVED = [
    *(("image", make, {"sites": sites}) for make in IMAGE_TOWERS for sites in ("grid", "vector")),
    *(("caption", make, {}) for make in (*tiny.CAPTION_TOWERS, tiny.clip_text)),
]


@pytest.mark.parametrize(("side", "make", "params"), SAVED, ids=lambda x: tiny.name(x) if callable(x) else str(x))
def test_a_model_is_saved_and_loaded_without_its_source(tmp_path, side, make, params):
    source = tmp_path / "tower"
    tiny.saved(make, source, words=True, colours=tiny.COLOURS)
    part = {"kind": "hub", "source": str(source), **params}
    model = models.build("aviary-tiny", f"{side}={json.dumps(part)}")
    model.save(tmp_path / "ours")
    source.rename(tmp_path / "gone")
    again = pcme.load(tmp_path / "ours")
    if side == "image":
        assert (again.images.network.mean, again.images.network.std) == tuple(map(tuple, tiny.COLOURS))
        inputs = [torch.full((3, 16, 16), 100, dtype=torch.uint8)]
        before, after = (m.encode_images(inputs) for m in (model, again))
    else:
        before, after = (m.encode_captions(["a red bird", "bird"]) for m in (model, again))
    assert torch.equal(before.mean, after.mean)
    assert torch.equal(before.log_sigma, after.log_sigma)
    assert same(model.state_dict(), again.state_dict())


@pytest.mark.parametrize(
    ("side", "make", "pooling", "instead"),
    [
        ("image", tiny.vit_classifier, {"sites": "vector"}, r'image\.sites="grid"'),
        ("caption", tiny.bert_for_words, {"pool": "pooler"}, r'caption\.pool="mean"'),
    ],
)
def test_a_pooling_layer_without_weights_pools_nothing(tmp_path, side, make, pooling, instead):
    tiny.saved(make, tmp_path, words=True)
    assert tiny.built(side, tmp_path).features == 16
    with pytest.raises(ConfigError, match=f"no weights for its pooling layer.*{instead}"):
        tiny.built(side, tmp_path, **pooling)


def test_a_projection_that_would_be_lost_is_not(tmp_path):
    tiny.saved(tiny.chinese_clip, tmp_path, colours=tiny.COLOURS)
    assert tiny.built("image", tmp_path).features == 16
    with pytest.raises(ConfigError, match=r'needs a projection .*image\.sites="grid"'):
        tiny.built("image", tmp_path, sites="vector")


@pytest.mark.parametrize(
    ("side", "make", "error", "message"),
    [
        ("image", tiny.bert, ConfigError, r"image\.source: must be a vision model.*text model"),
        ("caption", tiny.vit, ConfigError, r"caption\.source: must be a text model.*vision model"),
        ("image", tiny.siglip2, FormatError, r"siglip2_vision_model cannot be .* vision tower.*image\.source"),
        ("caption", tiny.t5, FormatError, r"t5 cannot be used as a text tower.*caption\.source"),
    ],
)
def test_a_tower_that_does_not_fit_its_side_is_refused(tmp_path, side, make, error, message):
    tiny.saved(make, tmp_path, words=make is tiny.t5, colours=tiny.COLOURS)
    with pytest.raises(error, match=message):
        tiny.built(side, tmp_path)


@pytest.mark.parametrize("side", ["image", "caption"])
def test_without_the_package_the_error_says_how_to_get_it(tmp_path, monkeypatch, side):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"pip install 'pcme\[hub\]'"):
        tiny.built(side, tmp_path)


def test_a_folder_that_is_missing_or_of_something_else_is_named(tmp_path):
    with pytest.raises(ConfigError, match="is not a folder"):
        tiny.built("image", tmp_path / "none")
    with pytest.raises((DataError, FormatError), match=str(tmp_path)):
        tiny.built("image", tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "nonesuch"}')
    with pytest.raises(FormatError, match="not a model that transformers can build"):
        tiny.built("image", tmp_path)
    tiny.saved(tiny.vit, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"junk")
    with pytest.raises((DataError, FormatError), match=str(tmp_path)):
        tiny.built("image", tmp_path)


def test_weights_of_another_model_or_pickled_are_refused(tmp_path):
    model = tiny.saved(tiny.vit, tmp_path)
    tiny.saved(tiny.bert, tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").replace(tmp_path / "model.safetensors")
    with pytest.raises(FormatError, match="not those of its config"):
        tiny.built("image", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(DataError, match="safetensors"):
        tiny.built("image", tmp_path)


def test_code_in_a_folder_is_not_run(tmp_path):
    classes = {"AutoConfig": "code.Mine", "AutoModel": "code.Mine"}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mine", "auto_map": classes}))
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w')")
    with pytest.raises(FormatError, match=r"trust_remote_code|transformers"):
        tiny.built("image", tmp_path)
    assert not (tmp_path / "owned").exists()
