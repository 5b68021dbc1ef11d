"""The feature cache: computed once, exact to half precision, never stale, never half written."""

import errno
import json

import numpy as np
import pytest
import torch
from torch import nn

from pcme.data import Problems
from pcme.data.images.transforms import ImageTransform
from pcme.data.loading.features import FeatureCache, Stage, digest_of_module
from pcme.errors import ConfigError, FormatError, ShapeError
from tests.helpers import photos, picture

SMALL = ImageTransform(size=8, resize=None, crop="none")


class Backbone:
    """Counts what it is asked for; features are two sites of block means."""

    def __init__(self, fail_after=None):
        self.images = 0
        self.fail_after = fail_after

    def __call__(self, pixels):
        if self.fail_after is not None and self.images >= self.fail_after:
            raise RuntimeError("power cut")
        self.images += len(pixels)
        halves = pixels.float().reshape(len(pixels), 3, 2, 32)
        return halves.mean(-1).transpose(1, 2) / 255


def compute(folder, data, encode, **options):
    options = {"batch_size": 3, **options}
    transform = options.pop("transform", SMALL)
    stages = [Stage(options.pop("backbone", "b1"), encode)]
    (cache,) = FeatureCache.open_or_compute(folder, data, transform, stages, **options)
    return cache


def test_features_are_those_of_the_backbone(tmp_path):
    data = photos(tmp_path / "images")
    cache = compute(tmp_path / "cache", data, Backbone())
    assert len(cache) == 10
    for index in range(10):
        expected = Backbone()(SMALL(data.images.load(index), None)[None])[0]
        assert torch.allclose(cache.row(index), expected, atol=1e-3)
        assert cache.row(index).dtype == torch.float32
    assert cache.features.dtype == np.float16


def test_the_second_time_nothing_is_computed_and_no_image_read(tmp_path):
    data = photos(tmp_path / "images")
    first = compute(tmp_path / "cache", data, Backbone())
    again = Backbone()
    second = compute(tmp_path / "cache", data, again)
    assert again.images == 0
    assert np.array_equal(first.features, second.features)
    assert isinstance(second.features, np.memmap)


@pytest.mark.parametrize("change", ["file", "backbone", "transform", "listing"])
def test_whatever_changes_the_features_makes_them_be_computed_again(tmp_path, change):
    data = photos(tmp_path / "images")
    before = compute(tmp_path / "cache", data, Backbone())
    options = {}
    if change == "file":
        picture(tmp_path / "images" / "4.jpg", size=(50, 50), colour=(0, 255, 0))
    elif change == "backbone":
        options["backbone"] = "b2"
    elif change == "transform":
        options["transform"] = ImageTransform(size=8, resize=12, crop="centre")
    else:
        data = data.subset(np.arange(9))
    counter = Backbone()
    after = compute(tmp_path / "cache", data, counter, **options)
    assert counter.images == len(data.images)
    assert after.folder != before.folder


def test_a_computation_that_was_cut_short_goes_on_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr("pcme.data.loading.features.SAVE_EVERY", 1)
    data = photos(tmp_path / "images")
    (tmp_path / "images" / "1.jpg").write_bytes(b"")
    with pytest.raises(RuntimeError, match="power cut"):
        compute(tmp_path / "cache", data, Backbone(fail_after=5))
    assert not [path for path in (tmp_path / "cache").iterdir() if path.name.endswith("manifest")]
    rest = Backbone()
    resumed = compute(tmp_path / "cache", data, rest)
    assert 0 < rest.images < 9
    whole = compute(tmp_path / "other", data, Backbone())
    assert np.array_equal(resumed.features, whole.features)
    assert np.array_equal(resumed.usable, whole.usable)


def test_unusable_images_have_no_row_and_are_reported(tmp_path):
    data = photos(tmp_path / "images")
    (tmp_path / "images" / "9.jpg").write_bytes(b"no picture")
    problems = Problems()
    cache = compute(tmp_path / "cache", data, Backbone(), problems=problems)
    assert cache.row(9) is None
    assert cache.row(8) is not None
    assert problems.counts == {"image-unreadable": 1}


def test_progress_ends_at_the_total(tmp_path):
    seen = []
    compute(tmp_path / "c", photos(tmp_path / "i"), Backbone(), progress=lambda *a: seen.append(a))
    assert [step[1:] for step in seen] == [(3, 10), (6, 10), (9, 10), (10, 10)]


def test_a_random_transform_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="random"):
        compute(tmp_path, photos(tmp_path / "i"), Backbone(), transform=ImageTransform.training(size=8))


@pytest.mark.parametrize(
    ("encode", "error", "message"),
    [
        (lambda pixels: pixels.float().mean((1, 2)), ShapeError, "sites"),
        (lambda pixels: torch.full((len(pixels), 1, 1), 1e6), FormatError, "half precision"),
        (lambda pixels: torch.full((len(pixels), 1, 1), float("nan")), FormatError, "finite"),
    ],
)
def test_features_that_cannot_be_kept_are_refused(tmp_path, encode, error, message):
    with pytest.raises(error, match=message):
        compute(tmp_path / "c", photos(tmp_path / "i"), encode)


@pytest.mark.parametrize("damage", ["features.npy", "usable.npy", "manifest", "version"])
def test_a_damaged_cache_is_a_format_error(tmp_path, damage):
    data = photos(tmp_path / "images")
    cache = compute(tmp_path / "cache", data, Backbone())
    manifest = cache.folder / "manifest.json"
    if damage == "manifest":
        manifest.write_text("{}")
    elif damage == "version":
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format_version": 99}))
    else:
        (cache.folder / damage).write_bytes(b"junk")
    with pytest.raises(FormatError, match="Delete it"):
        compute(tmp_path / "cache", data, Backbone())


def test_the_digest_sees_weights_buffers_and_structure():
    def network(seed, width=4):
        generator = torch.Generator().manual_seed(seed)
        made = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width))
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.copy_(torch.rand(parameter.shape, generator=generator))
        return made

    base = digest_of_module(network(0))
    assert digest_of_module(network(0)) == base
    assert digest_of_module(network(1)) != base
    assert digest_of_module(network(0, width=5)) != base
    moved = network(0)
    moved[1].running_mean += 1
    assert digest_of_module(moved) != base
    assert digest_of_module(nn.Sequential(*network(0), nn.ReLU())) != base


def test_a_disk_without_room_is_an_error_before_anything_is_computed(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        compute(tmp_path / "cache", photos(tmp_path / "images"), Backbone())


def test_each_view_of_a_random_transform_is_one_draw_that_is_kept(tmp_path):
    data = photos(tmp_path / "images")
    flipping = ImageTransform(size=8, resize=None, crop="none", erasing=1.0)
    first, second = (compute(tmp_path / "cache", data, Backbone(), transform=flipping, view=view) for view in (0, 1))
    assert first.folder != second.folder
    assert not np.array_equal(first.features, second.features)
    counter = Backbone()
    again = compute(tmp_path / "cache", data, counter, transform=flipping, view=1)
    assert counter.images == 0
    afresh = compute(tmp_path / "other", data, Backbone(), transform=flipping, view=1, workers=0)
    assert np.array_equal(again.features, afresh.features)


def test_all_views_of_a_transform_without_randomness_are_one(tmp_path):
    data = photos(tmp_path / "images")
    folders = {compute(tmp_path / "c", data, Backbone(), view=v).folder for v in (None, 0, 1)}
    assert len(folders) == 1


def test_maps_are_kept_with_their_shape(tmp_path):
    cache = compute(tmp_path / "c", photos(tmp_path / "i"), lambda pixels: pixels.float() / 255)
    assert cache.row(0).shape == (3, 8, 8)


def chain(backbone):
    """Two stages, of which the first counts the images."""
    return [Stage("below", backbone), Stage("whole", lambda features: 2 * features.relu())]


def compute_all(folder, data, stages):
    return FeatureCache.open_or_compute(folder, data, SMALL, stages, batch_size=3)


def test_stages_are_computed_in_one_pass_as_they_are_apart(tmp_path):
    data = photos(tmp_path / "images")
    backbone = Backbone()
    together = compute_all(tmp_path / "cache", data, chain(backbone))
    assert backbone.images == 10
    below, above = chain(Backbone())
    apart = [
        compute(tmp_path / "other", data, below.encode, backbone=below.backbone),
        compute(
            tmp_path / "other", data, lambda pixels: above.encode(below.encode(pixels)),
            backbone=above.backbone,
        ),
    ]  # fmt: skip
    for one, other in zip(together, apart, strict=True):
        assert one.folder.name == other.folder.name
        assert np.array_equal(one.features, other.features)


@pytest.mark.parametrize("there", [0, 1])
def test_of_stages_only_what_is_missing_is_written(tmp_path, there):
    data = photos(tmp_path / "images")
    whole = compute_all(tmp_path / "other", data, chain(Backbone()))
    stages = chain(Backbone())
    compute(tmp_path / "cache", data, lambda pixels: whole_of(stages[: there + 1], pixels),
            backbone=stages[there].backbone)  # fmt: skip
    (kept,) = (tmp_path / "cache").glob("*/features.npy")
    before = kept.stat().st_mtime_ns
    backbone = Backbone()
    found = compute_all(tmp_path / "cache", data, chain(backbone))
    assert backbone.images == 10
    assert kept.stat().st_mtime_ns == before
    for one, other in zip(found, whole, strict=True):
        assert np.array_equal(one.features, other.features)


def whole_of(stages, pixels):
    for stage in stages:
        pixels = stage.encode(pixels)
    return pixels


def test_a_stage_above_all_that_is_missing_does_not_run(tmp_path):
    data = photos(tmp_path / "images")
    below, above = chain(Backbone())
    compute(tmp_path / "cache", data, lambda pixels: whole_of([below, above], pixels),
            backbone=above.backbone)  # fmt: skip
    never = Stage(above.backbone, lambda features: pytest.fail("it is there already"))
    assert len(compute_all(tmp_path / "cache", data, [below, never])) == 2


def test_stages_that_were_cut_short_go_on_from_the_one_furthest_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("pcme.data.loading.features.SAVE_EVERY", 1)
    data = photos(tmp_path / "images")
    with pytest.raises(RuntimeError, match="power cut"):
        compute(tmp_path / "cache", data, Backbone(fail_after=5), backbone="below")
    with pytest.raises(RuntimeError, match="power cut"):
        compute_all(tmp_path / "cache", data, chain(Backbone(fail_after=3)))
    rest = Backbone()
    resumed = compute_all(tmp_path / "cache", data, chain(rest))
    assert rest.images == 7
    whole = compute_all(tmp_path / "other", data, chain(Backbone()))
    for one, other in zip(resumed, whole, strict=True):
        assert np.array_equal(one.features, other.features)
        assert one.usable.all()
