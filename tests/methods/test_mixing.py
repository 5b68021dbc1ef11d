"""Mixing: the truth of a mixed image is what is in it."""

import numpy as np
import pytest
import torch

from pcme.methods import mixing
from pcme.methods.mixing import mix


def mixed(images, monkeypatch, cut, seed=0, **options):
    monkeypatch.setattr(mixing, "CUT", float(cut))
    settings = {"share": 1.0, "alpha": 2.0, **options}
    return mix(images, torch.eye(len(images)), np.random.default_rng(seed), **settings)


def plain(count=6, size=16):
    """Images of one colour each, by which their parts are known."""
    colours = torch.linspace(0, 250, count).to(torch.uint8)
    return colours[:, None, None, None].expand(count, 3, size, size).contiguous()


@pytest.mark.parametrize("cut", [False, True], ids=["Mixup", "CutMix"])
def test_the_targets_are_the_shares_of_the_pixels(monkeypatch, cut):
    images = plain()
    found, truth = mixed(images, monkeypatch, cut)
    own, other = images[:, 0, 0, 0].float(), images.flip(0)[:, 0, 0, 0].float()
    share = (found.float().mean((1, 2, 3)) - other) / (own - other)
    torch.testing.assert_close(truth.diagonal(), share, atol=0.02, rtol=0)
    torch.testing.assert_close(truth.flip(1).diagonal(), 1 - share, atol=0.02, rtol=0)
    assert bool((truth > 0).sum(1).eq(2).all())


def test_cutting_keeps_every_pixel_somebodys(monkeypatch):
    images = plain()
    found, truth = mixed(images, monkeypatch, cut=True)
    for i in range(6):
        own = (found[i] == images[i]).float().mean()
        assert bool(((found[i] == images[i]) | (found[i] == images[5 - i])).all())
        assert own.item() == pytest.approx(truth[i, i].item())


@pytest.mark.parametrize("cut", [False, True], ids=["Mixup", "CutMix"])
def test_features_are_mixed_site_by_site(monkeypatch, cut):
    features = torch.arange(4.0)[:, None, None].expand(4, 10, 3).contiguous()
    found, truth = mixed(features, monkeypatch, cut)
    expected = truth @ torch.arange(4.0)
    torch.testing.assert_close(found.mean((1, 2)), expected)
    if cut:
        assert bool((found == found.round()).all())


def test_an_image_without_a_partner_stays_as_it_is(monkeypatch):
    """The middle of an odd batch is its own partner."""
    images = plain(5)
    found, truth = mixed(images, monkeypatch, cut=False)
    assert torch.equal(found[2], images[2])
    assert truth[2].tolist() == [0, 0, 1, 0, 0]


def test_a_single_site_is_blended_for_it_cannot_be_cut(monkeypatch):
    features = torch.arange(4.0)[:, None, None].expand(4, 1, 3).contiguous()
    found, truth = mixed(features, monkeypatch, cut=True)
    torch.testing.assert_close(found.mean((1, 2)), truth @ torch.arange(4.0))
    assert bool((found[:, 0, 0] != features[:, 0, 0]).all())
    assert bool((found[:, 0, 0] != features.flip(0)[:, 0, 0]).all())


def test_what_is_pasted_may_stick_out(monkeypatch):
    """Yun et al. 2019: a middle anywhere, so that the other's share is a third on average."""
    count = 2000
    images = torch.zeros(count, 1, 64, 64)
    images[: count // 2] = 1
    found, _ = mixed(images, monkeypatch, cut=True)
    share = (found != images).float().mean((1, 2, 3))
    assert share.mean().item() == pytest.approx(0.32, abs=0.02)
    assert (share > 0.5).float().mean().item() == pytest.approx(0.14, abs=0.03)
