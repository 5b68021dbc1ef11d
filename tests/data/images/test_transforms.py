import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from PIL import Image

from pcme.data.images import scaling
from pcme.data.images.transforms import MEAN_COLOUR, ImageTransform, cutmix, erase, normalise
from pcme.errors import ConfigError, DataError, ShapeError
from tests.helpers import unless_annotations_are_enforced

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def textured(width, height, seed=0):
    """Noise on top of a gradient: every pixel counts, and a turned picture is noticed."""
    generator = np.random.default_rng(seed)
    ramp = np.linspace(0, 150, width)[None, :, None] + np.linspace(0, 50, height)[:, None, None]
    noise = generator.integers(0, 50, (height, width, 3))
    return Image.fromarray((ramp + noise).astype(np.uint8))


def ramps():
    """256 x 256; red is the column and green the row, so that pixels tell where they come from."""
    row, column = np.mgrid[:256, :256]
    return Image.fromarray(np.stack((column, row, 0 * row), -1).astype(np.uint8))


def pillow(image, box, size):
    part = image.crop(box).resize((size, size), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(part)).permute(2, 0, 1)


def apart(one, other):
    difference = (one.int() - other.int()).abs().float()
    return float(difference.max()), float(difference.mean())


@settings(max_examples=25)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 64))
@example(640, 480, 224)
@example(100, 60, 224)
@example(2100, 2100, 224)
@example(7, 900, 32)
def test_scaling_agrees_with_pillow_with_and_without_access_to_memory(width, height, size):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8))
    transform = ImageTransform(size=size, crop="none")
    pixels = transform(image)
    worst, mean = apart(pixels, pillow(image, (0, 0, width, height), size))
    assert (pixels.dtype, worst <= 2, mean <= 0.5) == (torch.uint8, True, True)
    assert scaling._memory(image) is not None or max(image.size) > 300
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaling, "_memory", lambda image: None)
        assert torch.equal(transform(image), pixels)


CENTRE = ImageTransform.evaluation()
WHOLE = ImageTransform(size=16, crop="random-resized", scale=(1.0, 1.0))


@pytest.mark.parametrize(
    ("transform", "size", "box"),
    [
        (CENTRE, (640, 480), (110, 30, 530, 450)),  # 224/256 of the short side: 420 of 480, in the middle
        (CENTRE, (480, 640), (30, 110, 450, 530)),
        (WHOLE, (400, 100), (133, 0, 266, 100)),  # 4 : 1 does not fit: the largest of 4 : 3, in the middle
        (WHOLE, (100, 400), (0, 133, 100, 266)),
    ],
)
def test_the_box_that_is_scaled(transform, size, box):
    image = textured(*size)
    pixels = transform(image, np.random.default_rng(0))
    assert apart(pixels, pillow(image, box, transform.size))[0] <= 2


def test_evaluation_is_close_to_scaling_the_whole_picture_first():
    """As torchvision does it: short side to 229, then the centre of 200."""
    whole = ramps().resize((229, 229), Image.Resampling.BILINEAR)
    reference = torch.from_numpy(np.array(whole.crop((14, 14, 214, 214)))).permute(2, 0, 1)
    pixels = ImageTransform.evaluation(200)(ramps())
    assert apart(pixels, reference)[0] <= 1  # a grey level is a pixel of the original


@pytest.mark.parametrize("size", [(301, 200), (200, 301), (256, 256), (100, 77), (640, 427)])
def test_the_scaled_centre_is_scaled_whole_and_then_cut(size, monkeypatch):
    """As torchvision's Resize(256) and CenterCrop(224), from which it was seen not to differ."""
    picture = textured(*size)
    short = min(size)
    whole = picture.resize((int(256 * size[0] / short), int(256 * size[1] / short)), Image.Resampling.BILINEAR)
    top, left = round((whole.height - 224) / 2), round((whole.width - 224) / 2)
    wanted = np.array(whole)[top : top + 224, left : left + 224].transpose(2, 0, 1)
    transform = ImageTransform(crop="scaled-centre")
    assert np.array_equal(transform(picture).numpy(), wanted)
    monkeypatch.setattr(scaling, "LARGEST_SCALED", 0)
    assert np.abs(transform(picture).numpy().astype(int) - wanted).max() <= 1


def test_a_picture_of_the_right_size_is_copied_as_it_is():
    image = textured(64, 64)
    pixels = ImageTransform(size=64, resize=None)(image)
    np.testing.assert_array_equal(pixels.permute(1, 2, 0).numpy(), np.asarray(image))
    pixels.zero_()
    assert np.asarray(image).any()


@pytest.mark.parametrize("shape", [(1, 1), (1, 5000), (5000, 1), (2, 3), (3000, 7)])
@pytest.mark.parametrize("crop", ["centre", "scaled-centre", "random-resized", "none"])
def test_pictures_of_every_shape_give_the_square(shape, crop):
    transform = ImageTransform(size=48, resize=56, crop=crop, flip=True, cutout=1.0)
    pixels = transform(textured(*shape), np.random.default_rng(0))
    assert pixels.shape == (3, 48, 48)
    assert pixels.is_contiguous()


@pytest.mark.parametrize("crop", ["centre", "random-resized"])
def test_of_a_line_of_pixels_the_middle_is_taken(crop):
    line = np.zeros((1, 4999, 3), np.uint8)
    line[0, 2499] = 10, 200, 30
    pixels = ImageTransform(size=8, resize=9, crop=crop)(Image.fromarray(line), np.random.default_rng(0))
    assert pixels.flatten(1).unique(dim=1).flatten().tolist() == [10, 200, 30]


def test_random_resized_crops_are_spread_as_told():
    transform = ImageTransform(size=64, crop="random-resized", scale=(0.25, 1.0), ratio=(1.0, 1.0))
    image, repeats = ramps(), 600
    shares, places = [], []
    for seed in range(repeats):
        red, green, _ = transform(image, np.random.default_rng(seed)).double()
        side = float(red[0, 60] - red[0, 3]) / 57 * 64  # the slope is source pixels a pixel
        shares.append((side / 256) ** 2)
        places += [(float(x) - (side - 1) / 2) / (256 - side) for x in (red.mean(), green.mean())
                   if side < 250]  # fmt: skip
    assert 0.24 < min(shares) < 0.27
    assert 0.98 < max(shares) < 1.02
    # U(1/4, 1) has mean 5/8 and variance (3/4)²/12; U(0, 1) has 1/2 and 1/12
    assert abs(np.mean(shares) - 0.625) < 5 * math.sqrt(0.75**2 / 12 / repeats)
    assert abs(np.mean(places) - 0.5) < 5 * math.sqrt(1 / 12 / len(places))
    assert abs(np.var(places) - 1 / 12) < 5 * math.sqrt(1 / 180 / len(places))


def test_random_resized_crops_have_the_shapes_told():
    transform = ImageTransform(size=64, crop="random-resized", scale=(0.2, 0.4), ratio=(0.5, 2.0))
    logs = []
    for seed in range(600):
        red, green, _ = transform(ramps(), np.random.default_rng(seed)).double()
        logs.append(math.log(float(red[0, 60] - red[0, 3]) / float(green[60, 0] - green[3, 0])))
    bound = math.log(2)
    assert max(map(abs, logs)) < bound + 0.05
    assert abs(np.mean(logs)) < 5 * bound / math.sqrt(3 * 600)  # U(-b, b): variance b²/3
    assert abs(np.var(logs) / (bound**2 / 3) - 1) < 5 * math.sqrt(0.8 / 600)


def test_half_of_the_pictures_are_flipped():
    image = textured(40, 40)
    plain = ImageTransform(size=40, crop="none")(image)
    flipped, repeats = 0, 400
    for seed in range(repeats):
        pixels = ImageTransform(size=40, crop="none", flip=True)(image, np.random.default_rng(seed))
        turned = torch.equal(pixels, plain.flip(-1))
        assert turned or torch.equal(pixels, plain)
        flipped += turned
    assert abs(flipped / repeats - 0.5) < 5 * 0.5 / math.sqrt(repeats)


def holes(transform, repeats):
    """(height, width) of the rectangle cut out of a white picture, for each seed that has one."""
    white = Image.new("RGB", (64, 64), (255, 255, 255))
    for seed in range(repeats):
        pixels = transform(white, np.random.default_rng(seed))
        cut = (pixels != 255).any(0)
        if cut.any():
            rows, columns = cut.any(1).nonzero(), cut.any(0).nonzero()
            shape = int(rows.max() - rows.min()) + 1, int(columns.max() - columns.min()) + 1
            assert cut.sum() == shape[0] * shape[1]  # one solid rectangle
            assert (pixels[:, cut] == torch.tensor(transform.fill)[:, None]).all()
            yield shape


def test_a_fifth_of_the_pictures_lose_a_rectangle():
    transform = ImageTransform(size=64, crop="none", cutout=0.2)
    repeats = 1500
    shapes = np.array(list(holes(transform, repeats)))
    assert abs(len(shapes) / repeats - 0.2) < 5 * math.sqrt(0.2 * 0.8 / repeats)
    shares, ratios = shapes.prod(1) / 64**2, shapes[:, 0] / shapes[:, 1]
    assert 0.015 < shares.min() < 0.04
    assert 0.29 < shares.max() < 0.35
    assert 0.27 < ratios.min() < 0.4
    assert 2.5 < ratios.max() < 3.8
    # U(0.02, 1/3) has mean 0.177 and deviation 0.0905; the largest, long ones are drawn again
    assert abs(shares.mean() - 0.177) < 5 * 0.0905 / math.sqrt(len(shares)) + 0.01
    assert abs(np.log(ratios).mean()) < 5 * 0.7 / math.sqrt(len(ratios))


def test_the_colour_of_a_cut_out_is_nothing_to_the_backbone():
    pixels = torch.tensor(MEAN_COLOUR, dtype=torch.uint8).view(1, 3, 1, 1)
    assert (normalise(pixels, MEAN, STD).abs() <= 0.5 / 255 / 0.224).all()


def test_only_a_random_transform_needs_a_generator():
    image = textured(30, 20)
    for fields in ({}, {"crop": "none"}, {"crop": "scaled-centre"}, {"resize": None}):
        transform = ImageTransform(**fields)
        assert transform.deterministic
        assert torch.equal(transform(image), transform(image, np.random.default_rng(0)))
    for fields in ({"crop": "random-resized"}, {"flip": True}, {"cutout": 0.1}, {"erasing": 0.1}):
        assert not ImageTransform(**fields).deterministic
        with pytest.raises(ConfigError, match="generator"):
            ImageTransform(**fields)(image)


def test_the_recipes_of_the_paper():
    assert ImageTransform.evaluation() == ImageTransform(size=224, resize=256, crop="centre")
    assert ImageTransform.evaluation(64).resize == 73
    assert ImageTransform.evaluation(64, 64).resize == 64
    crop = ImageTransform(crop="random-resized", scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3))
    assert ImageTransform.training() == replace(crop, flip=True, cutout=0.2)


WRONG = {
    "size": [0],
    "resize": [200],
    "crop": ["left"],
    "scale": [(0.0, 1.0), (0.5, 0.2), (0.5, 1.2)],
    "ratio": [(0.0, 1.0), (2.0, 1.0), (1.0, math.inf)],
    "cutout": [1.5, math.nan],
    "erasing": [-0.1],
    "fill": [(0, 0, 256), (0, 0)],
}


@unless_annotations_are_enforced
@pytest.mark.parametrize(("field", "value"), [(field, value) for field in WRONG for value in WRONG[field]])
def test_fields_are_checked(field, value):
    with pytest.raises(ConfigError, match=f"{field}: must be .* got"):
        ImageTransform(**{field: value})


def test_grey_pictures_are_refused():
    with pytest.raises(DataError, match='"L"'):
        ImageTransform()(Image.new("L", (8, 8)))


def test_normalise():
    pixels = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (4, 3, 5, 7), np.uint8))
    before = pixels.clone()
    normal = normalise(pixels, MEAN, STD)
    assert torch.equal(pixels, before)
    assert normal.dtype == torch.float32
    mean, std = (torch.tensor(v, dtype=torch.float64).view(3, 1, 1) for v in (MEAN, STD))
    torch.testing.assert_close(normal.double(), (pixels / 255.0 - mean) / std, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("mean", "std"), [((0.5,), (1.0, 1.0, 1.0)), (MEAN, (1.0, 1.0)), (MEAN, (1.0, 0.0, 1.0))])
def test_normalise_refuses(mean, std):
    with pytest.raises(ConfigError, match="three"):
        normalise(torch.zeros(1, 3, 2, 2, dtype=torch.uint8), mean, std)


SIDES, RATIOS, SEEDS = st.integers(1, 80), st.floats(0, 1), st.integers(0, 1000)


@given(SIDES, SIDES, RATIOS, RATIOS, SEEDS)
def test_erase_is_nested_and_about_as_large_as_told(height, width, one, other, seed):
    pixels = torch.full((3, height, width), 255, dtype=torch.uint8)
    less, more = ((erase(pixels, ratio, np.random.default_rng(seed)) != 255).any(0) for ratio in sorted((one, other)))
    assert not (less & ~more).any()
    assert (pixels == 255).all()
    ratio = max(one, other)
    # a side is rounded by up to three quarters of a pixel, the other then by up to one quarter
    longest, shortest = (f(height, width) * math.sqrt(ratio) for f in (max, min))
    bound = 0.75 * longest + 0.25 * shortest + 0.2
    assert abs(int(more.sum()) - ratio * height * width) <= bound


def test_in_a_square_the_area_is_right_to_half_a_row():
    pixels = torch.zeros(3, 64, 64, dtype=torch.uint8)
    for ratio in np.linspace(0, 1, 101):
        count = int((erase(pixels, float(ratio), np.random.default_rng(0)) != 0).any(0).sum())
        assert abs(count - ratio * 64**2) <= 0.5 * 64 * math.sqrt(ratio) + 0.6


def test_erase_from_nothing_to_everything():
    pixels = torch.from_numpy(np.array(textured(30, 20))).permute(2, 0, 1)
    assert torch.equal(erase(pixels, 0.0, np.random.default_rng(0)), pixels)
    everything = erase(pixels, 1.0, np.random.default_rng(0), fill=(1, 2, 3))
    assert everything.flatten(1).unique(dim=1).flatten().tolist() == [1, 2, 3]


def test_erase_reaches_every_pixel():
    pixels = torch.full((3, 12, 12), 255, dtype=torch.uint8)
    hit = sum((erase(pixels, 0.3, np.random.default_rng(s)) != 255).any(0).int() for s in range(300))
    assert hit.min() > 0
    assert hit[5:7, 5:7].min() > hit[0, 0]


@given(SIDES, SIDES, RATIOS, SEEDS)
def test_cutmix_takes_the_pixels_that_erase_erases_and_tells_their_share(height, width, ratio, seed):
    a, b = torch.from_numpy(np.random.default_rng(seed).integers(0, 100, (2, 3, height, width), np.uint8))
    a += 100
    mixed, share = cutmix(a, b, ratio, np.random.default_rng(seed))
    erased = (erase(b, ratio, np.random.default_rng(seed), fill=(255, 255, 255)) == 255).all(0)
    assert torch.equal(mixed, torch.where(erased, b, a))
    assert share == pytest.approx(float(erased.double().mean()))
    assert a.min() >= 100


@unless_annotations_are_enforced
def test_pictures_to_mix_must_fit():
    with pytest.raises(ShapeError, match=r"\(3, 4, 4\)"):
        cutmix(*(torch.zeros(3, n, n, dtype=torch.uint8) for n in (4, 5)), 0.5, np.random.default_rng(0))


@pytest.mark.parametrize("ratio", [-0.1, 1.1, math.nan])
def test_ratios_are_shares(ratio):
    with pytest.raises(ConfigError, match="0 to 1"):
        erase(torch.zeros(3, 4, 4, dtype=torch.uint8), ratio, np.random.default_rng(0))


def test_wide_erasing_hides_any_share_of_some_pictures():
    """Half of the pictures are erased, by shares that spread over all of 0 to 1."""
    transform = ImageTransform(size=20, resize=None, crop="none", erasing=0.5)
    picture = Image.new("RGB", (20, 20), (200, 60, 40))
    grey = torch.tensor(MEAN_COLOUR, dtype=torch.uint8).view(3, 1, 1)
    seen = [transform(picture, np.random.default_rng(seed)) for seed in range(400)]
    shares = np.array([(pixels == grey).all(0).float().mean().item() for pixels in seen])
    erased = shares[shares > 0]
    assert 0.4 < len(erased) / len(shares) < 0.6
    assert np.histogram(erased, 4, (0, 1))[0].min() > 25
