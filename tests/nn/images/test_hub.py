from functools import partial

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from pcme.data.loading.features import digest_of_module
from pcme.errors import ConfigError, FormatError, ShapeError
from pcme.nn import images
from pcme.nn.backbone import Build
from tests import models
from tests.helpers import generator, unless_annotations_are_enforced
from tests.nn import tiny

build = partial(tiny.built, "image")
every_tower = pytest.mark.parametrize("make", tiny.IMAGE_TOWERS, ids=tiny.name)


def pictures():
    return torch.rand(2, 3, 16, 16, generator=generator(1))


@every_tower
@torch.no_grad()
def test_sites_and_vectors_are_the_librarys(tmp_path, make):
    whole, pixels = tiny.saved(make, tmp_path), pictures()
    output = getattr(whole, "vision_model", whole)(pixel_values=pixels)
    sites, vector = output.last_hidden_state, output.pooler_output.flatten(1)
    if sites.ndim == 4:
        sites = sites.flatten(2).transpose(1, 2)
    if make is tiny.clip:  # whose two sides meet after a projection
        vector = whole.get_image_features(pixels).pooler_output
        assert vector.shape == (2, 8)
    for kind, expected in (("grid", sites), ("vector", vector[:, None])):
        network = build(tmp_path, sites=kind)
        assert network.features == expected.shape[2]
        assert torch.allclose(network(pixels), expected, atol=1e-6)


@torch.no_grad()
def test_a_tower_that_was_saved_alone_has_its_own_vector(tmp_path):
    for make, name in ((tiny.clip_vision, "pooler_output"), (tiny.clip_vision_projecting, "image_embeds")):
        alone = tiny.saved(make, tmp_path / name)
        expected = getattr(alone(pixel_values=pictures()), name)
        assert torch.allclose(build(tmp_path / name, sites="vector")(pictures())[:, 0], expected)


@torch.no_grad()
def test_a_masked_autoencoder_sees_all_of_a_picture_in_its_order(tmp_path):
    tiny.saved(tiny.vit_mae, tmp_path, colours=tiny.COLOURS)
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
@pytest.mark.parametrize("make", [tiny.efficientnet, tiny.mobilenet, tiny.mobilevit], ids=tiny.name)
@torch.no_grad()
def test_the_width_is_that_of_the_features_whatever_the_config_calls_it(tmp_path, make, sites):
    tiny.saved(make, tmp_path, colours=tiny.COLOURS)
    network = build(tmp_path, sites=sites)
    assert network(torch.rand(2, 3, 32, 32)).shape[2] == network.features


@every_tower
def test_the_blocks_are_all_of_the_tower_in_order(tmp_path, make):
    tiny.saved(make, tmp_path)
    network = build(tmp_path)
    inside = [id(parameter) for block in network.blocks() for parameter in block.parameters()]
    assert inside == [id(parameter) for parameter in network.parameters()]
    assert len(network.blocks()) >= 3


def test_the_colours_are_the_processors(tmp_path):
    tiny.saved(tiny.vit, tmp_path)
    assert build(tmp_path).mean == (0.5, 0.5, 0.5)
    tiny.saved(tiny.vit, tmp_path, colours=tiny.COLOURS)
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
    tiny.saved(tiny.clip, tmp_path, colours=tiny.COLOURS)
    other = build(tmp_path)
    assert len({digest_of_module(network) for network in (grid, vector, other)}) == 3
    assert digest_of_module(other) == digest_of_module(build(tmp_path))


def test_nothing_is_drawn_and_an_image_of_another_size_is_refused(tmp_path):
    tiny.saved(tiny.vit, tmp_path)
    before = torch.random.get_rng_state()
    network = build(tmp_path)
    assert torch.equal(before, torch.random.get_rng_state())
    with pytest.raises(ShapeError, match=r"got 24x24.*augment\.size=16"):
        network(torch.zeros(1, 3, 24, 24))


@unless_annotations_are_enforced
@pytest.mark.parametrize("source", [7, None, ["x"]])
def test_a_source_is_text(source):
    with pytest.raises(ConfigError, match=r"image\.source: must be text"):
        images.create("hub", source=source).build(Build(generator()))


def test_the_recipe_clip_heads_cuts_out_what_clips_processor_does(tmp_path):
    tiny.saved(tiny.clip, tmp_path, words=True)
    sources = [f"{side}.source={tmp_path}" for side in ("image", "caption")]
    y, x = np.mgrid[0:480, 0:640]
    waves = [np.sin(x / 17) * np.cos(y / 23), np.sin((x + y) / 11), np.sign(np.sin(x / 40))]
    picture = Image.fromarray((127 + 127 * np.stack(waves, axis=-1)).astype(np.uint8))
    processor = transformers.CLIPImageProcessor(do_normalize=False, do_rescale=False)
    expected = processor(picture, return_tensors="np")["pixel_values"][0]

    def apart(*changes):
        transform = models.build("clip-heads", *sources, "dim=8", *changes).transform
        return np.abs(transform(picture).numpy() - expected.astype(float)).mean()

    assert apart() < 3, "of 255: the processor scales bicubically"
    assert apart("augment.resize=null") > 20
