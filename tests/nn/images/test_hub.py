"""Vision towers of transformers: the library's own features, saved, loaded, frozen in part."""

import sys

import pytest
import torch

import pcme
from pcme import ConfigError, DataError, FormatError, ShapeError, recipes
from pcme.data.features import digest_of_module
from pcme.data.text import Vocab
from pcme.model import Model
from pcme.nn import images
from tests.nn import tiny

TOWERS = [tiny.clip, tiny.siglip, tiny.vit, tiny.dinov2, tiny.convnext, tiny.resnet]
COLOURS = ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
every_tower = pytest.mark.parametrize("make", TOWERS, ids=lambda make: make.__name__)


def build(folder, **params):
    backbone = images.create("hub", source=str(folder), **params)
    return backbone.build(torch.Generator().manual_seed(0)).eval()


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
    wanted = seen_by(whole, pixels).pooler_output.flatten(1)
    assert torch.allclose(network(pixels)[:, 0], wanted, atol=1e-6)


@every_tower
def test_a_model_is_saved_and_loaded_without_its_source(tmp_path, make):
    tiny.saved(make, tmp_path / "tower", colours=COLOURS)
    image = f'image={{"kind": "hub", "source": "{tmp_path / "tower"}"}}'
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
    with pytest.raises(ShapeError, match=r"Set augment\.size"):
        build(tmp_path)(torch.zeros(1, 3, 24, 24))


def test_a_missing_folder_is_not_taken_for_a_hub_name(tmp_path):
    with pytest.raises(ConfigError, match="is not a folder - give a folder, or a hub name"):
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
    with pytest.raises(FormatError, match="its weights are not those of its config - it lacks"):
        build(tmp_path)


def test_without_the_package_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match=r"pip install 'pcme\[hub\]'"):
        build(tmp_path)


@pytest.mark.parametrize("wrong", [{"sites": "some"}, {"sources": "x"}])
def test_wrong_parameters_are_named(wrong):
    with pytest.raises(ConfigError, match=r"sites must be one of|is not a field"):
        images.create("hub", **{"source": "x", **wrong})
