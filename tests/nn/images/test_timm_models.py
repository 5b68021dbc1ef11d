"""timm cannot be imported on the machines that run these tests: only what is said then."""

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from pcme.errors import ConfigError
from pcme.nn import images
from pcme.nn.backbone import Build
from pcme.nn.images.timm_models import TimmNetwork
from pcme.nn.transformers_towers import blocks_of


def test_a_missing_package_or_model_is_named(monkeypatch):
    without_models = SimpleNamespace(is_model=lambda name: False)
    for package, message in ((None, r"pip install 'pcme\[timm\]'"), (without_models, 'timm has no model "nonesuch"')):
        monkeypatch.setitem(sys.modules, "timm", package)
        with pytest.raises(ConfigError, match=message):
            images.create("timm", model="nonesuch").build(Build(torch.Generator()))


def test_blocks_hold_everything_once_and_in_order():
    """Layers in a sequence, and a class token beside them, as timm's transformers have."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Parameter(torch.zeros(3))
            self.stem = nn.Linear(2, 2)
            self.blocks = nn.Sequential(nn.Linear(9, 9), nn.Linear(9, 9), nn.Linear(9, 9))
            self.norm = nn.LayerNorm(2)

    model = Model()
    blocks = blocks_of(model)
    assert len(blocks) == 4
    inside = [id(parameter) for block in blocks for parameter in block.parameters()]
    assert inside == [id(parameter) for parameter in model.parameters()]


@pytest.mark.parametrize("shape", [(2, 8, 3, 4), (2, 3, 4, 8), (2, 12, 8)])
def test_features_of_any_layout_become_sites(shape):
    class Model(nn.Module):
        num_features = 8
        pretrained_cfg = {"mean": [0.5] * 3, "std": [0.5] * 3}  # noqa: RUF012 - as timm has it

        def forward_features(self, pixels):
            return torch.zeros(shape)

    network = TimmNetwork(Model())
    assert network(torch.zeros(2, 3, 4, 4)).shape == (2, 12, 8)
    assert network.mean == (0.5, 0.5, 0.5)
