from unittest.mock import Mock

import pytest
import torch
from PIL import Image

import pcme
from pcme.data.aviary.dataset import Aviary
from pcme.data.images.transforms import ImageTransform
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError, ShapeError
from pcme.evaluation import embed
from pcme.uncertainty import Confidence
from pcme.uncertainty.calibrate import calibrate
from tests.helpers import picture, unless_annotations_are_enforced
from tests.models import build, copied, untrained
from tests.one_device import OneDevice
from tests.training.trained import same

BLACK = torch.zeros(3, 16, 16, dtype=torch.uint8)


@pytest.fixture(scope="module")
def model():
    return build(captions=["a red bird", "a blue bird with a long bill"])


def test_images_come_as_paths_images_or_tensors(model, tmp_path):
    path = picture(tmp_path / "a.png", size=(16, 16))
    with Image.open(path) as image:
        image.load()
    pixels = model.transform(image.convert("RGB"), None)
    embedded = model.encode_images([path, str(path), image, pixels])
    assert torch.allclose(embedded.mean, embedded.mean[:1].expand(4, -1), atol=1e-6)


@pytest.mark.parametrize("crop", ["none", "centre"])
def test_tensors_of_any_size_go_through_the_transform(crop):
    drawn = torch.Generator().manual_seed(0)
    pixels = [torch.randint(256, (3, *size), dtype=torch.uint8, generator=drawn) for size in ((16, 16), (40, 30))]
    image = Image.fromarray(pixels[1].permute(1, 2, 0).numpy())
    embedded = untrained(f"augment.crop={crop}").encode_images([*pixels, image])
    assert torch.allclose(embedded.mean[1], embedded.mean[2], atol=1e-6)
    assert not torch.allclose(embedded.mean[0], embedded.mean[1])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["crop=none"], ImageTransform(16, None, "none")),
        (["crop=centre"], ImageTransform(16, 18, "centre")),
        (["crop=scaled-centre"], ImageTransform(16, 18, "scaled-centre")),
        (["crop=random-resized"], ImageTransform(16, 18, "centre")),
        (["crop=centre", "resize=16"], ImageTransform(16, 16, "centre")),
    ],
)
def test_the_recipe_decides_the_transform(changes, expected):
    assert untrained(*(f"augment.{change}" for change in changes)).transform == expected


@pytest.mark.parametrize("wrong", [BLACK.float(), BLACK.permute(1, 2, 0), BLACK[None], BLACK[:1]])
def test_a_tensor_that_is_no_image_is_refused_by_its_index(model, wrong):
    with pytest.raises(ShapeError, match=r"image 2: must be an 8-bit tensor \[3,h,w\], got"):
        model.encode_images([BLACK, BLACK, wrong], batch_size=1)


def test_an_image_that_cannot_be_read_is_named(model, tmp_path):
    good = picture(tmp_path / "good.png")
    (tmp_path / "empty.png").touch()
    (tmp_path / "cut.png").write_bytes(good.read_bytes()[:60])
    for name in ("empty.png", "cut.png", "missing.png", "."):
        with pytest.raises(DataError, match=f"{tmp_path / name}: .*Fix the file"):
            model.encode_images([good, tmp_path / name])
    with Image.open(tmp_path / "cut.png") as lazy, pytest.raises(DataError, match="image 1: "):
        model.encode_images([good, lazy])


def test_progress_is_reported_after_every_batch(model):
    calls = []
    model.encode_images([BLACK] * 5, batch_size=2, progress=lambda *at: calls.append(at))
    model.encode_captions(["a bird"] * 3, batch_size=2, progress=lambda *at: calls.append(at))
    images = [("images", done, 5) for done in (2, 4, 5)]
    assert calls == [*images, ("captions", 2, 3), ("captions", 3, 3)]


@unless_annotations_are_enforced
def test_a_caption_that_is_no_text_is_named(model):
    with pytest.raises(DataError, match="caption 1: must be text, got None"):
        model.encode_captions(["a bird", None])


def test_pixels_are_moved_to_the_models_device():
    """On the device that has no values: whatever is left behind is an error."""
    moved = build().to("meta")
    with OneDevice() as seen, torch.no_grad():
        embedded = moved.embed_images(BLACK[None])
    assert moved.device == embedded.mean.device == embedded.log_sigma.device == torch.device("meta")
    assert seen.operations


def test_a_model_that_was_moved_embeds_a_split(model):
    dataset = Aviary(pixels=16, val_species=2, val_images=2, captions_per_image=2).load("val")
    there, here = (embed(model.to(device), dataset, Problems()) for device in (torch.device("cpu", 0), "cpu"))
    assert torch.equal(there.images.mean, here.images.mean)
    assert torch.equal(there.captions.mean, here.captions.mean)


def test_unknown_and_empty_captions_are_unknown_words_and_batches_do_not_matter(model):
    captions = ["", "<unk>", "xyzzy", "a red bird", "a blue bird with a long bill", "bird"]
    whole, parts = (model.encode_captions(captions, batch_size=size) for size in (6, 1))
    assert torch.allclose(whole.mean[:3], whole.mean[:1].expand(3, -1), atol=1e-6)
    assert torch.allclose(whole.mean, parts.mean, atol=1e-6)
    assert torch.allclose(whole.log_sigma, parts.log_sigma, atol=1e-6)


@pytest.mark.parametrize("wrong", [[], "a red bird"])
def test_a_single_string_or_nothing_is_refused(model, wrong):
    with pytest.raises(DataError, match="list"):
        model.encode_captions(wrong)


def test_the_same_seed_builds_the_same_model():
    state = build().state_dict()
    torch.rand(5)
    assert same(build().state_dict(), state)


def test_a_model_needs_its_pretrained_weights_only_once(tmp_path, monkeypatch):
    """The model's own file holds them: neither package nor file is asked again."""
    model = build("aviary-tiny", 'image={"kind": "efficientnet-lite"}', "augment.size=32")
    model.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recipe.json", "vocab.json", "weights.safetensors"]
    missing = Mock(side_effect=AssertionError("asked for the package"))
    monkeypatch.setattr("pcme.nn.images.efficientnet._pretrained", missing)
    assert same(pcme.load(tmp_path).state_dict(), model.state_dict())


def test_similarity_is_the_matrix_of_the_models_score(model):
    captions = model.encode_captions(["a red bird", "a blue bird"])
    images = model.encode_images([BLACK] * 3)
    similarity = model.similarity(captions, images)
    assert similarity.shape == (2, 3)
    assert torch.equal(similarity, model.score()(captions, images))
    assert model.confidence is None
    assert torch.equal(model.match_probability(captions, images), similarity.exp())


def test_a_method_without_a_probability_has_similarities_alone():
    model = untrained('method={"kind":"vse0"}')
    captions = model.encode_captions(["a red bird"])
    assert model.similarity(captions, captions).shape == (1, 1)
    with pytest.raises(ConfigError, match="probability"):
        model.match_probability(captions, captions)


def test_a_calibrated_model_gives_calibrated_probabilities(sigma_run, tmp_path):
    run = copied(sigma_run, tmp_path / "run")
    assert pcme.load(run).confidence is None
    calibrate(run, Aviary(pixels=16, val_species=6, val_images=3).load("val")).confidence.save(run)
    model = pcme.load(run)
    assert isinstance(model.confidence, Confidence)
    captions = model.encode_captions(["a red bird", "a blue bird with a long bill"])
    log_p = model.similarity(captions, captions)
    expected = model.confidence.probability(log_p.numpy())
    calibrated = model.match_probability(captions, captions)
    assert calibrated.dtype == log_p.dtype
    assert torch.allclose(calibrated.double(), torch.from_numpy(expected), atol=1e-6)


def test_features_are_those_that_the_towers_see(model):
    """Of pixels, of the maps below the last block, and of features themselves."""
    pixels = torch.randint(256, (2, 3, 16, 16), dtype=torch.uint8)
    with torch.no_grad():
        whole = model.eval().features(pixels)
        maps = model.images.network.below(model.network_input(pixels), 1)
        assert torch.allclose(model.features(maps, top=1), whole)
        assert model.features(whole) is whole
        assert torch.equal(model.embed_images(pixels).mean, model.embed_images(whole).mean)
