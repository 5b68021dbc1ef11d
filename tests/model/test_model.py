"""Model: what goes in, what comes out, and what a damaged folder says."""

import pytest
import torch
from PIL import Image

import pcme
from pcme.data.images.transforms import ImageTransform
from pcme.data.text.tokens import Vocab
from pcme.errors import ConfigError, DataError, FormatError, ShapeError
from pcme.model import Model
from tests.helpers import picture, unless_annotations_are_enforced
from tests.models import TINY, build, copied, untrained


@pytest.fixture(scope="module")
def model():
    return build(captions=["a red bird", "a blue bird with a long bill"])


def test_pictures_come_as_paths_images_or_tensors(model, tmp_path):
    path = picture(tmp_path / "a.png", size=(16, 16))
    with Image.open(path) as image:
        image.load()
    pixels = model.transform(image.convert("RGB"), None)
    embedded = model.encode_images([path, str(path), image, pixels])
    assert torch.allclose(embedded.mean, embedded.mean[:1].expand(4, -1), atol=1e-6)


@pytest.mark.parametrize("crop", ["none", "centre"])
def test_tensors_of_any_size_go_through_the_transform(model, crop):
    other = Model(TINY.changed([f"augment.crop={crop}"]), model.vocab, model.captions.words.words.weight)
    drawn = torch.Generator().manual_seed(0)
    pixels = [
        torch.randint(256, (3, *size), dtype=torch.uint8, generator=drawn) for size in ((16, 16), (40, 30), (5, 70))
    ]
    images = [Image.fromarray(tensor.permute(1, 2, 0).numpy()) for tensor in pixels[1:]]
    embedded = other.encode_images([*pixels, *images])
    assert torch.equal(embedded.mean[1:3], embedded.mean[3:])
    assert not torch.allclose(embedded.mean[0], embedded.mean[1])


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        (["crop=none"], ImageTransform(16, None, "none")),
        (["crop=centre"], ImageTransform(16, 18, "centre")),
        (["crop=scaled-centre"], ImageTransform(16, 18, "scaled-centre")),
        (["crop=random-resized"], ImageTransform(16, 18, "centre")),
        (["crop=centre", "resize=16"], ImageTransform(16, 16, "centre")),
        (["crop=scaled-centre", "resize=30"], ImageTransform(16, 30, "scaled-centre")),
    ],
)
def test_the_recipe_says_what_a_picture_goes_through(model, changes, wanted):
    recipe = TINY.changed([f"augment.{change}" for change in changes])
    assert Model(recipe, model.vocab, model.captions.words.words.weight).transform == wanted


@pytest.mark.parametrize(
    "wrong",
    [
        torch.zeros(3, 16, 16),
        torch.zeros(16, 16, 3, dtype=torch.uint8),
        torch.zeros(1, 3, 16, 16, dtype=torch.uint8),
        torch.zeros(1, 16, 16, dtype=torch.uint8),
    ],
)
def test_a_tensor_that_is_no_picture_is_refused_by_its_place(model, wrong):
    good = torch.zeros(3, 16, 16, dtype=torch.uint8)
    with pytest.raises(ShapeError, match=r"image 2: must be an 8-bit tensor \[3,h,w\], got"):
        model.encode_images([good, good, wrong], batch_size=1)


def test_a_picture_that_cannot_be_read_is_named(model, tmp_path):
    good = picture(tmp_path / "good.png")
    (tmp_path / "empty.png").touch()
    (tmp_path / "cut.png").write_bytes(good.read_bytes()[:60])
    for name in ("empty.png", "cut.png", "missing.png", "."):
        with pytest.raises(DataError, match=f"{tmp_path / name}: .*Fix the file"):
            model.encode_images([good, tmp_path / name])
    with Image.open(tmp_path / "cut.png") as lazy, pytest.raises(DataError, match="image 1: "):
        model.encode_images([good, lazy])


def test_progress_is_told_after_every_batch(model):
    told = []
    pictures = [torch.zeros(3, 16, 16, dtype=torch.uint8)] * 5
    model.encode_images(pictures, batch_size=2, progress=lambda *at: told.append(at))
    assert told == [("images", 2, 5), ("images", 4, 5), ("images", 5, 5)]
    told.clear()
    model.encode_captions(["a bird"] * 3, batch_size=2, progress=lambda *at: told.append(at))
    assert told == [("captions", 2, 3), ("captions", 3, 3)]


@unless_annotations_are_enforced
def test_a_caption_that_is_no_text_is_named(model):
    with pytest.raises(DataError, match="caption 1: must be text, got None"):
        model.encode_captions(["a bird", None])


def test_pixels_are_moved_to_the_models_device(model):
    """On the device that has no values: whatever were left behind would be an error."""
    moved = Model(TINY, model.vocab, model.captions.words.words.weight).to("meta").eval()
    assert moved.device == torch.device("meta")
    found = moved.encode_images([torch.zeros(3, 16, 16, dtype=torch.uint8)])
    assert found.mean.device == found.log_sigma.device == torch.device("meta")


def test_a_model_that_was_moved_embeds_a_split(model):
    from pcme.data.aviary.dataset import Aviary
    from pcme.data.problems import Problems
    from pcme.evaluation import embed

    dataset = Aviary(pixels=16, val_species=2, val_images=2, captions_per_image=2).load("val")
    there = embed(model.to(torch.device("cpu", 0)), dataset, Problems())
    here = embed(model.to("cpu"), dataset, Problems())
    assert torch.equal(there.images.mean, here.images.mean)
    assert torch.equal(there.captions.mean, here.captions.mean)


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
    with pytest.raises(FormatError, match="does not fit"):
        pcme.load(tmp_path)


def test_a_rewritten_model_is_never_half_written(model, tmp_path):
    model.save(tmp_path)
    model.save(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["recipe.json", "vocab.json", "weights.safetensors"]


def test_a_model_needs_its_pretrained_weights_only_once(tmp_path, monkeypatch):
    """What was pretrained is in the model's own file: neither package nor file is asked again."""
    recipe = TINY.changed(['image={"kind": "efficientnet-lite"}', "augment.size=32"])
    vocab = Vocab.build(["a red bird"], 1)
    model = Model(recipe, vocab, torch.zeros(len(vocab), 8))
    model.save(tmp_path)

    def missing(variant):
        raise AssertionError("asked for the package")

    monkeypatch.setattr("pcme.nn.images.efficientnet._pretrained", missing)
    again = pcme.load(tmp_path)
    for name, value in model.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])


def test_similarity_is_the_matrix_of_the_models_score(model):
    captions = model.encode_captions(["a red bird", "a blue bird"])
    images = model.encode_images([torch.zeros(3, 16, 16, dtype=torch.uint8)] * 3)
    found = model.similarity(captions, images)
    assert found.shape == (2, 3)
    assert torch.equal(found, model.score()(captions, images))
    assert model.confidence is None
    assert torch.equal(model.match_probability(captions, images), found.exp())


def test_a_method_without_a_probability_has_similarities_alone():
    model = untrained('method={"kind":"vse0"}')
    captions = model.encode_captions(["a red bird"])
    assert model.similarity(captions, captions).shape == (1, 1)
    with pytest.raises(ConfigError, match="probability"):
        model.match_probability(captions, captions)


def test_a_calibrated_model_gives_calibrated_probabilities(sigma_run, tmp_path):
    from pcme.data.aviary.dataset import Aviary
    from pcme.uncertainty import Confidence
    from pcme.uncertainty.calibrate import calibrate

    run = copied(sigma_run, tmp_path / "run")
    assert pcme.load(run).confidence is None
    calibrate(run, Aviary(pixels=16, val_species=6, val_images=3).load("val")).confidence.save(run)
    model = pcme.load(run)
    assert isinstance(model.confidence, Confidence)
    captions = model.encode_captions(["a red bird", "a blue bird with a long bill"])
    log_p = model.similarity(captions, captions)
    expected = model.confidence.probability(log_p.numpy())
    found = model.match_probability(captions, captions)
    assert found.dtype == log_p.dtype
    assert torch.allclose(found.double(), torch.from_numpy(expected), atol=1e-6)


def test_features_are_those_that_the_towers_see(model):
    """Of pixels, of the maps below the last block, and of features themselves."""
    pixels = torch.randint(256, (2, 3, 16, 16), dtype=torch.uint8)
    with torch.no_grad():
        whole = model.eval().features(pixels)
        maps = model.images.network.below(model.network_input(pixels), 1)
        assert torch.allclose(model.features(maps, top=1), whole)
        assert model.features(whole) is whole
        assert torch.equal(model.embed_images(pixels).mean, model.embed_images(whole).mean)
