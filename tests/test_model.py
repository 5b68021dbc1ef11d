"""Model: what goes in, what comes out, and what a damaged folder says."""

import pytest
import torch
from PIL import Image

import pcme
from pcme import DataError, FormatError, recipes
from pcme.data.text import Vocab
from pcme.model import Model
from tests.helpers import picture

TINY = recipes.get("aviary-tiny")


@pytest.fixture(scope="module")
def model():
    vocab = Vocab.build(["a red bird", "a blue bird with a long bill"])
    generator = torch.Generator().manual_seed(0)
    return Model(TINY, vocab, torch.randn(len(vocab), 8, generator=generator)).eval()


def test_pictures_come_as_paths_images_or_tensors(model, tmp_path):
    path = picture(tmp_path / "a.png", size=(16, 16))
    with Image.open(path) as image:
        image.load()
    pixels = model.transform(image.convert("RGB"), None)
    embedded = model.encode_images([path, str(path), image, pixels])
    assert torch.allclose(embedded.mean, embedded.mean[:1].expand(4, -1), atol=1e-6)


def test_batches_do_not_matter(model):
    captions = ["a red bird", "a bird", "a blue bird with a long bill", "bird"]
    whole = model.encode_captions(captions)
    parts = model.encode_captions(captions, batch_size=1)
    assert torch.allclose(whole.mean, parts.mean, atol=1e-6)
    assert torch.allclose(whole.log_sigma, parts.log_sigma, atol=1e-6)


def test_unknown_and_empty_captions_are_embedded_as_unknown(model):
    found = model.encode_captions(["", "<unk>", "xyzzy"])
    assert torch.allclose(found.mean, found.mean[:1].expand(3, -1), atol=1e-6)


@pytest.mark.parametrize("wrong", [[], "a red bird"])
def test_a_single_string_or_nothing_is_refused(model, wrong):
    with pytest.raises(DataError, match="list"):
        model.encode_captions(wrong)


def test_the_same_seed_builds_the_same_model(model):
    state = torch.random.get_rng_state()
    torch.rand(5)
    vectors = model.captions.words.words.weight.detach()
    again = Model(TINY, model.vocab, vectors)
    torch.random.set_rng_state(state)
    left, right = model.state_dict(), again.state_dict()
    assert all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("name", ["recipe.json", "vocab.json", "weights.safetensors"])
def test_a_missing_file_is_named(model, tmp_path, name):
    model.save(tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(FormatError, match=name):
        pcme.load(tmp_path)


@pytest.mark.parametrize("name", ["recipe.json", "vocab.json", "weights.safetensors"])
def test_a_damaged_file_is_a_format_error(model, tmp_path, name):
    model.save(tmp_path)
    (tmp_path / name).write_bytes(b"junk")
    with pytest.raises(FormatError):
        pcme.load(tmp_path)


def test_weights_of_another_recipe_are_refused(model, tmp_path):
    model.save(tmp_path)
    text = (tmp_path / "recipe.json").read_text().replace('"dim": 16', '"dim": 32')
    (tmp_path / "recipe.json").write_text(text)
    with pytest.raises(FormatError, match="do not fit"):
        pcme.load(tmp_path)


def test_a_rewritten_model_is_never_half_written(model, tmp_path):
    model.save(tmp_path)
    model.save(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["recipe.json", "vocab.json", "weights.safetensors"]
