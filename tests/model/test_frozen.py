"""What a held backbone makes of images is kept: it is what the whole network would have made."""

import pytest
import torch

from pcme.data.images.transforms import normalise
from pcme.model.frozen import cache_folder, cached_features, cached_stages
from tests.helpers import photos
from tests.models import build


@pytest.fixture
def model():
    return build()


@pytest.mark.parametrize("top", [0, 1, 2])
def test_what_is_kept_and_the_blocks_above_are_the_network(tmp_path, monkeypatch, model, top):
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "cache"))
    data = photos(tmp_path / "images")
    found = cached_features(model, data, model.transform, top=top)
    network = model.images.network.eval()
    rows = torch.stack([found.row(i) for i in range(len(found))])
    pixels = torch.stack([model.transform(data.images.load(i)) for i in range(len(found))])
    with torch.no_grad():
        whole = network(normalise(pixels, network.mean, network.std))
        again = network.above(rows, top) if top else rows
    assert torch.allclose(again, whole, atol=5e-3)


def test_what_learns_is_not_part_of_what_is_kept(tmp_path, monkeypatch, model):
    """After the last block has learnt, the maps below it are found again; those of all are not."""
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "cache"))
    data = photos(tmp_path / "images")
    before = [cached_features(model, data, model.transform, top=top).folder for top in (0, 1)]
    with torch.no_grad():
        next(iter(model.images.network.blocks()[-1].parameters())).add_(1)
    after = [cached_features(model, data, model.transform, top=top).folder for top in (0, 1)]
    assert before[0] != after[0]
    assert before[1] == after[1]


def test_several_cuts_are_kept_in_one_pass(tmp_path, monkeypatch):
    """The first block sees every image once, and all is as each cut alone gives it."""
    model = build("aviary-tiny", "image.widths=[4,8,8]")
    data = photos(tmp_path / "images")
    seen = []
    model.images.network.blocks()[0].register_forward_hook(lambda *call: seen.append(call[1][0]))
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "together"))
    together = cached_stages(model, data, model.transform, [2, 1, 0])
    assert sum(map(len, seen)) == len(data.images)
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "apart"))
    for top, one in zip([2, 1, 0], together, strict=True):
        alone = cached_features(model, data, model.transform, top=top)
        assert one.folder.name == alone.folder.name
        assert (one.features == alone.features).all()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"PCME_CACHE": "/here", "XDG_CACHE_HOME": "/there"}, "/here"),
        ({"XDG_CACHE_HOME": "/there"}, "/there/pcme"),
        ({"HOME": "/me"}, "/me/.cache/pcme"),
    ],
)
def test_where_features_are_kept(monkeypatch, variables, expected):
    for name in ("PCME_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(cache_folder()) == expected
