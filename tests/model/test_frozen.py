"""The cached output of a frozen backbone: it is that of the whole network."""

import pytest
import torch

from pcme.data.images.transforms import normalise
from pcme.model.frozen import cache_folder, cached_features
from tests.helpers import photos
from tests.models import build


@pytest.fixture
def model():
    return build("aviary-tiny", "image.widths=[4,8,8]")


@pytest.mark.parametrize("top", [0, 1, 2])
def test_the_blocks_above_complete_the_network(tmp_path, model, top):
    data = photos(tmp_path / "images")
    cache = cached_features(model, data, model.transform, top=top)
    network = model.images.network.eval()
    rows = torch.stack([cache.row(i) for i in range(len(cache))])
    pixels = torch.stack([model.transform(data.images.load(i)) for i in range(len(cache))])
    with torch.no_grad():
        whole = network(normalise(pixels, network.mean, network.std))
        again = network.above(rows, top) if top else rows
    assert torch.allclose(again, whole, atol=5e-3)


def test_blocks_that_learn_are_not_part_of_the_cache(tmp_path, model):
    """After the last block has learnt, the maps below it are found again; those of all are not."""
    data = photos(tmp_path / "images")
    before = [cached_features(model, data, model.transform, top=top).folder for top in (0, 1)]
    with torch.no_grad():
        next(iter(model.images.network.blocks()[-1].parameters())).add_(1)
    after = [cached_features(model, data, model.transform, top=top).folder for top in (0, 1)]
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_several_cuts_are_cached_in_one_pass(tmp_path, monkeypatch, model):
    """The first block sees every image once, and each cut is the same as alone."""
    data, seen = photos(tmp_path / "images"), []
    model.images.network.blocks()[0].register_forward_hook(lambda *call: seen.extend(call[1][0]))
    cached_features(model, data, model.transform, top=0, ahead=[2, 1])
    together = [cached_features(model, data, model.transform, top=top) for top in (2, 1, 0)]
    assert len(seen) == len(data.images)
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "apart"))
    for top, cache in zip((2, 1, 0), together, strict=True):
        alone = cached_features(model, data, model.transform, top=top)
        assert cache.folder.name == alone.folder.name
        assert (cache.features == alone.features).all()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PCME_CACHE": "/here", "XDG_CACHE_HOME": "/there"}, "/here"),
        ({"XDG_CACHE_HOME": "/there"}, "/there/pcme"),
        ({"HOME": "/me"}, "/me/.cache/pcme"),
    ],
)
def test_the_cache_follows_the_environment(monkeypatch, variables, expected):
    for name in ("PCME_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(cache_folder()) == expected
