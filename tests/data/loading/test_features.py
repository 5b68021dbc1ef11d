import errno
import json
from unittest.mock import Mock

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
    """Counts its images; features are two sites of block means."""

    def __init__(self, fail_after=None):
        self.images = 0
        self.fail_after = fail_after

    def __call__(self, pixels):
        if self.fail_after is not None and self.images >= self.fail_after:
            raise RuntimeError("power cut")
        self.images += len(pixels)
        halves = pixels.float().reshape(len(pixels), 3, 2, 32)
        return halves.mean(-1).transpose(1, 2) / 255


def compute_all(folder, data, stages, transform=SMALL, **options):
    return FeatureCache.open_or_compute(folder, data, transform, stages, batch_size=3, **options)


def compute(folder, data, encode, backbone="b1", **options):
    (cache,) = compute_all(folder, data, [Stage(backbone, encode)], **options)
    return cache


@pytest.fixture
def data(tmp_path):
    return photos(tmp_path / "images")


def test_features_are_computed_once_and_are_those_of_the_backbone(tmp_path, data):
    seen = []
    cache = compute(tmp_path / "cache", data, Backbone(), progress=lambda *step: seen.append(step[1:]))
    assert (len(cache), cache.features.dtype, seen) == (10, np.float16, [(3, 10), (6, 10), (9, 10), (10, 10)])
    for index in range(10):
        expected = Backbone()(SMALL(data.images.load(index), None)[None])[0]
        assert torch.allclose(cache.row(index), expected, atol=1e-3)
        assert cache.row(index).dtype == torch.float32
    again = Backbone()
    second = compute(tmp_path / "cache", data, again)
    assert again.images == 0
    assert np.array_equal(cache.features, second.features)
    assert isinstance(second.features, np.memmap)


@pytest.mark.parametrize("change", ["file", "backbone", "transform", "listing"])
def test_whatever_changes_the_features_makes_them_be_computed_again(tmp_path, data, change):
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


def test_an_interrupted_computation_resumes(tmp_path, data, monkeypatch):
    monkeypatch.setattr("pcme.data.loading.features.SAVE_EVERY", 1)
    (tmp_path / "images" / "1.jpg").write_bytes(b"")
    with pytest.raises(RuntimeError, match="power cut"):
        compute(tmp_path / "cache", data, Backbone(fail_after=5))
    assert not list((tmp_path / "cache").glob("*/manifest.json"))
    rest, problems = Backbone(), Problems()
    resumed = compute(tmp_path / "cache", data, rest)
    assert 0 < rest.images < 9
    whole = compute(tmp_path / "other", data, Backbone(), problems=problems)
    assert np.array_equal(resumed.features, whole.features)
    assert np.array_equal(resumed.usable, whole.usable)
    assert (whole.row(1), problems.counts) == (None, {"image-empty": 1})


@pytest.mark.parametrize(
    ("encode", "error", "message"),
    [
        (lambda pixels: pixels.float().mean((1, 2)), ShapeError, "sites"),
        (lambda pixels: torch.full((len(pixels), 1, 1), 1e6), FormatError, "half precision"),
        (lambda pixels: torch.full((len(pixels), 1, 1), float("nan")), FormatError, "finite"),
    ],
)
def test_invalid_features_are_refused(tmp_path, data, encode, error, message):
    with pytest.raises(error, match=message):
        compute(tmp_path / "cache", data, encode)


@pytest.mark.parametrize("damage", ["features.npy", "usable.npy", "manifest", "version"])
def test_a_damaged_cache_is_a_format_error(tmp_path, data, damage):
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
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width))

    moved = network(0)
    moved[1].running_mean += 1
    others = [network(1), network(0, width=5), moved, nn.Sequential(*network(0), nn.ReLU())]
    assert digest_of_module(network(0)) == digest_of_module(network(0))
    assert len(set(map(digest_of_module, [network(0), *others]))) == 5


def test_a_disk_without_room_is_an_error_before_anything_is_computed(tmp_path, data, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr("os.posix_fallocate", Mock(side_effect=full))
    with pytest.raises(OSError, match="No space"):
        compute(tmp_path / "cache", data, Backbone())


def test_each_view_of_a_random_transform_is_one_cached_draw(tmp_path, data):
    random = ImageTransform(size=8, resize=None, crop="none", erasing=1.0)
    with pytest.raises(ConfigError, match="random"):  # of which view?
        compute(tmp_path / "cache", data, Backbone(), transform=random)
    first, second = (compute(tmp_path / "cache", data, Backbone(), transform=random, view=view) for view in (0, 1))
    assert first.folder != second.folder
    assert not np.array_equal(first.features, second.features)
    counter = Backbone()
    again = compute(tmp_path / "cache", data, counter, transform=random, view=1)
    assert counter.images == 0
    afresh = compute(tmp_path / "other", data, Backbone(), transform=random, view=1, workers=0)
    assert np.array_equal(again.features, afresh.features)


def test_all_views_of_a_transform_without_randomness_are_one(tmp_path, data):
    folders = {compute(tmp_path / "cache", data, Backbone(), view=view).folder for view in (None, 0, 1)}
    assert len(folders) == 1


def test_maps_are_cached_with_their_shape(tmp_path, data):
    cache = compute(tmp_path / "cache", data, lambda pixels: pixels.float() / 255)
    assert cache.row(0).shape == (3, 8, 8)


def double(features):
    return 2 * features.relu()


def chain(backbone):
    """Two stages, of which the first counts the images."""
    return [Stage("below", backbone), Stage("whole", double)]


def compute_alone(folder, data, stage):
    """The output of one of the stages of a chain."""
    if stage == "below":
        return compute(folder, data, Backbone(), backbone="below")
    return compute(folder, data, lambda pixels: double(Backbone()(pixels)), backbone="whole")


def assert_same(caches, others):
    for cache, other in zip(caches, others, strict=True):
        assert cache.folder.name == other.folder.name
        assert np.array_equal(cache.features, other.features)
        assert cache.usable.all()


def test_stages_are_computed_in_one_pass_as_they_are_apart(tmp_path, data):
    backbone = Backbone()
    together = compute_all(tmp_path / "cache", data, chain(backbone))
    assert backbone.images == 10
    assert_same(together, [compute_alone(tmp_path / "other", data, stage) for stage in ("below", "whole")])


@pytest.mark.parametrize("stage", ["below", "whole"])
def test_only_missing_stages_are_written(tmp_path, data, stage):
    compute_alone(tmp_path / "cache", data, stage)
    (file,) = (tmp_path / "cache").glob("*/features.npy")
    before = file.stat().st_mtime_ns
    backbone = Backbone()
    caches = compute_all(tmp_path / "cache", data, chain(backbone))
    assert backbone.images == 10
    assert file.stat().st_mtime_ns == before
    assert_same(caches, compute_all(tmp_path / "other", data, chain(Backbone())))


def test_a_stage_above_all_that_is_missing_does_not_run(tmp_path, data):
    compute_alone(tmp_path / "cache", data, "whole")
    never = Stage("whole", lambda features: pytest.fail("is cached"))
    assert len(compute_all(tmp_path / "cache", data, [Stage("below", Backbone()), never])) == 2


def test_interrupted_stages_resume_from_the_one_furthest_behind(tmp_path, data, monkeypatch):
    monkeypatch.setattr("pcme.data.loading.features.SAVE_EVERY", 1)
    with pytest.raises(RuntimeError, match="power cut"):
        compute(tmp_path / "cache", data, Backbone(fail_after=5), backbone="below")
    with pytest.raises(RuntimeError, match="power cut"):
        compute_all(tmp_path / "cache", data, chain(Backbone(fail_after=3)))
    rest = Backbone()
    resumed = compute_all(tmp_path / "cache", data, chain(rest))
    assert rest.images == 7
    assert_same(resumed, compute_all(tmp_path / "other", data, chain(Backbone())))
