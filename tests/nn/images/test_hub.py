"""Vision towers of transformers: the library's own features, saved, loaded, frozen in part."""

import sys

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

import pcme
from pcme import recipes
from pcme.data.loading.features import digest_of_module
from pcme.data.text.tokens import Vocab
from pcme.errors import ConfigError, DataError, FormatError, ShapeError
from pcme.model import Model
from pcme.nn import images
from pcme.nn.backbone import Build
from tests.helpers import unless_annotations_are_enforced
from tests.nn import tiny

TOWERS = [tiny.clip, tiny.siglip, tiny.vit, tiny.dinov2, tiny.convnext, tiny.resnet]
COLOURS = ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
every_tower = pytest.mark.parametrize("make", TOWERS, ids=lambda make: make.__name__)


def build(folder, **params):
    backbone = images.create("hub", source=str(folder), **params)
    return backbone.build(Build(torch.Generator().manual_seed(0))).eval()


def pictures(count=2):
    return torch.rand(count, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def seen_by(whole, pixels):
    """What the library itself computes."""
    tower = getattr(whole, "vision_model", whole)
    return tower(pixel_values=pixels)


@every_tower
@torch.no_grad()
def test_the_sites_are_the_librarys_features(tmp_path, make):
    whole = tiny.saved(make, tmp_path)
    network, pixels = build(tmp_path), pictures()
    wanted = seen_by(whole, pixels).last_hidden_state
    if wanted.ndim == 4:
        wanted = wanted.flatten(2).transpose(1, 2)
    found = network(pixels)
    assert found.shape == (2, wanted.shape[1], network.features)
    assert torch.allclose(found, wanted, atol=1e-6)


@every_tower
@torch.no_grad()
def test_a_vector_is_what_the_tower_pools(tmp_path, make):
    whole = tiny.saved(make, tmp_path)
    network, pixels = build(tmp_path, sites="vector"), pictures()
    if make is tiny.clip:  # whose two sides meet after a projection
        wanted = whole.get_image_features(pixels).pooler_output
        assert wanted.shape == (2, 8)
    else:
        wanted = seen_by(whole, pixels).pooler_output.flatten(1)
    assert network.features == wanted.shape[1]
    assert torch.allclose(network(pixels)[:, 0], wanted, atol=1e-6)


@torch.no_grad()
def test_a_tower_that_was_saved_alone_has_its_own_vector(tmp_path):
    bare = tiny.saved(tiny.clip_vision, tmp_path / "bare")
    wanted = bare(pixel_values=pictures()).pooler_output
    assert torch.allclose(build(tmp_path / "bare", sites="vector")(pictures())[:, 0], wanted)
    projecting = tiny.saved(tiny.clip_vision_projecting, tmp_path / "projecting")
    wanted = projecting(pixel_values=pictures()).image_embeds
    assert torch.allclose(build(tmp_path / "projecting", sites="vector")(pictures())[:, 0], wanted)


def test_a_projection_that_would_be_lost_is_not(tmp_path):
    tiny.saved(tiny.chinese_clip, tmp_path, colours=COLOURS)
    assert build(tmp_path).features == 16
    with pytest.raises(ConfigError, match=r'needs a projection .*image\.sites="grid"'):
        build(tmp_path, sites="vector")


def test_a_pooling_layer_without_weights_pools_nothing(tmp_path):
    tiny.saved(tiny.vit_classifier, tmp_path)
    assert build(tmp_path).features == 16
    with pytest.raises(ConfigError, match=r'no weights for its pooling layer.*image\.sites="grid"'):
        build(tmp_path, sites="vector")


@torch.no_grad()
def test_a_masked_autoencoder_sees_all_of_a_picture_in_its_order(tmp_path):
    tiny.saved(tiny.vit_mae, tmp_path, colours=COLOURS)
    network = build(tmp_path)
    sites = network(pictures())
    assert sites.shape == (2, 5, 16)
    assert torch.equal(sites, network(pictures()))
    for row, column in ((0, 0), (0, 1), (1, 0), (1, 1)):
        changed = pictures()
        changed[:, :, 8 * row : 8 * row + 8, 8 * column : 8 * column + 8] += 9
        moved = (network(changed) - sites).norm(dim=-1)[:, 1:].argmax(dim=1)
        assert moved.tolist() == [2 * row + column] * 2


@pytest.mark.parametrize("sites", ["grid", "vector"])
@pytest.mark.parametrize("make", [tiny.efficientnet, tiny.mobilenet, tiny.mobilevit], ids=lambda make: make.__name__)
@torch.no_grad()
def test_the_width_is_that_of_the_features_whatever_the_config_calls_it(tmp_path, make, sites):
    tiny.saved(make, tmp_path, colours=COLOURS)
    network = build(tmp_path, sites=sites)
    assert network(torch.rand(2, 3, 32, 32)).shape[2] == network.features


@pytest.mark.parametrize("sites", ["grid", "vector"])
@pytest.mark.parametrize(
    "make", [*TOWERS, tiny.clip_vision, tiny.clip_vision_projecting], ids=lambda make: make.__name__
)
def test_a_model_is_saved_and_loaded_without_its_source(tmp_path, make, sites):
    tiny.saved(make, tmp_path / "tower", colours=COLOURS)
    image = f'image={{"kind": "hub", "source": "{tmp_path / "tower"}", "sites": "{sites}"}}'
    recipe = recipes.get("aviary-tiny").changed([image])
    vocab = Vocab.build(["a red bird"])
    model = Model(recipe, vocab, torch.zeros(len(vocab), 8)).eval()
    model.save(tmp_path / "ours")
    for file in (tmp_path / "tower").iterdir():
        file.unlink()
    (tmp_path / "tower").rmdir()
    again = pcme.load(tmp_path / "ours")
    assert (again.images.network.mean, again.images.network.std) == tuple(map(tuple, COLOURS))
    pixels = [torch.full((3, 16, 16), 100, dtype=torch.uint8)]
    assert torch.equal(model.encode_images(pixels).mean, again.encode_images(pixels).mean)
    left, right = model.state_dict(), again.state_dict()
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)


@every_tower
def test_the_blocks_are_all_of_the_tower_in_order(tmp_path, make):
    tiny.saved(make, tmp_path)
    network = build(tmp_path)
    blocks = network.blocks()
    inside = [id(parameter) for block in blocks for parameter in block.parameters()]
    assert inside == [id(parameter) for parameter in network.parameters()]
    assert len(blocks) >= 3


def test_the_colours_are_the_processors(tmp_path):
    tiny.saved(tiny.vit, tmp_path)
    assert build(tmp_path).mean == (0.5, 0.5, 0.5)
    tiny.saved(tiny.vit, tmp_path, colours=COLOURS)
    assert build(tmp_path).mean == (0.1, 0.2, 0.3)
    tiny.saved(tiny.vit, tmp_path, colours=([0.1], [0.2]))
    with pytest.raises(FormatError, match="image_mean and image_std must be three numbers"):
        build(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text('{"do_normalize": false}')
    assert build(tmp_path).std == (1.0, 1.0, 1.0)
    tiny.saved(tiny.clip, tmp_path / "clip")
    assert build(tmp_path / "clip").mean[0] == 0.48145466


def test_kept_features_are_known_by_sites_and_colours_too(tmp_path):
    """The weights are the same in all three, what they make of a picture is not."""
    tiny.saved(tiny.clip, tmp_path)
    grid, vector = (build(tmp_path, sites=sites) for sites in ("grid", "vector"))
    tiny.saved(tiny.clip, tmp_path, colours=COLOURS)
    other = build(tmp_path)
    assert len({digest_of_module(network) for network in (grid, vector, other)}) == 3
    assert digest_of_module(other) == digest_of_module(build(tmp_path))


def test_nothing_is_drawn_from_the_global_stream(tmp_path):
    tiny.saved(tiny.vit, tmp_path)
    before = torch.random.get_rng_state()
    build(tmp_path)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_picture_of_another_size_says_what_to_set(tmp_path):
    tiny.saved(tiny.vit, tmp_path)
    with pytest.raises(ShapeError, match=r"got 24x24.*augment\.size=16"):
        build(tmp_path)(torch.zeros(1, 3, 24, 24))


def test_a_text_model_is_not_asked_for_pictures(tmp_path):
    tiny.saved(tiny.bert, tmp_path)
    with pytest.raises(ConfigError, match=r"image\.source: must be a vision model.*text model"):
        build(tmp_path)


def test_a_tower_that_needs_more_than_pixels_is_refused(tmp_path):
    tiny.saved(tiny.siglip2, tmp_path, colours=COLOURS)
    with pytest.raises(FormatError, match=r"siglip2_vision_model cannot be used as a vision tower.*image\.source"):
        build(tmp_path)


@unless_annotations_are_enforced
@pytest.mark.parametrize("source", [7, None, ["x"]])
def test_a_source_is_text(source):
    with pytest.raises(ConfigError, match=r"image\.source: must be text"):
        images.create("hub", source=source).build(Build(torch.Generator()))


def test_the_recipe_clip_heads_cuts_out_what_clips_processor_does(tmp_path):
    tiny.saved(tiny.clip, tmp_path, words=True)
    sources = [f"{side}.source={tmp_path}" for side in ("image", "caption")]
    vocab = Vocab.build(["a bird"])
    y, x = np.mgrid[0:480, 0:640]
    waves = [np.sin(x / 17) * np.cos(y / 23), np.sin((x + y) / 11), np.sign(np.sin(x / 40))]
    picture = Image.fromarray((127 + 127 * np.stack(waves, axis=-1)).astype(np.uint8))
    own = transformers.CLIPImageProcessor()(picture, do_normalize=False, do_rescale=False, return_tensors="np")[
        "pixel_values"
    ][0]

    def apart(*changes):
        recipe = recipes.get("clip-heads").changed([*sources, "dim=8", *changes])
        transform = Model(recipe, vocab, torch.zeros(len(vocab), 50)).transform
        return np.abs(transform(picture).numpy() - own.astype(float)).mean()

    assert apart() < 3, "of 255: the processor scales bicubically"
    assert apart("augment.resize=null") > 20


def test_a_missing_folder_is_not_taken_for_a_hub_name(tmp_path):
    with pytest.raises(ConfigError, match="is not a folder"):
        build(tmp_path / "none")


def test_a_folder_of_something_else_is_named(tmp_path):
    with pytest.raises((DataError, FormatError), match=str(tmp_path)):
        build(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "nonesuch"}')
    with pytest.raises(FormatError, match="not a model that transformers can build"):
        build(tmp_path)
    tiny.saved(tiny.vit, tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"junk")
    with pytest.raises((DataError, FormatError), match=str(tmp_path)):
        build(tmp_path)


def test_pickled_weights_are_refused(tmp_path):
    model = tiny.saved(tiny.vit, tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(DataError, match="safetensors"):
        build(tmp_path)


def test_code_in_a_folder_is_not_run(tmp_path):
    (tmp_path / "config.json").write_text(
        '{"model_type": "mine", "auto_map": {"AutoConfig": "code.Mine", "AutoModel": "code.Mine"}}'
    )
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w')")
    with pytest.raises(FormatError, match=r"trust_remote_code|transformers"):
        build(tmp_path)
    assert not (tmp_path / "owned").exists()


def test_weights_of_another_model_are_refused(tmp_path):
    tiny.saved(tiny.vit, tmp_path)
    tiny.saved(tiny.bert, tmp_path / "bert")
    (tmp_path / "bert" / "model.safetensors").replace(tmp_path / "model.safetensors")
    with pytest.raises(FormatError, match="not those of its config"):
        build(tmp_path)


def test_without_the_package_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"pip install 'pcme\[hub\]'"):
        build(tmp_path)


@pytest.mark.parametrize("wrong", [{"sites": "some"}, {"sources": "x"}])
def test_wrong_parameters_are_named(wrong):
    with pytest.raises(ConfigError, match=r"sites: must be one of|is not a field"):
        images.create("hub", **{"source": "x", **wrong})
