"""ResNet: against a second, functional one that is built from names and formulas alone."""

import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from pcme.errors import FormatError
from pcme.nn.backbone import Build
from pcme.nn.images import create
from pcme.nn.images.resnet import ResNetwork
from tests.helpers import generator

BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
WITHOUT_FC = {18: 11_176_512, 34: 21_284_672, 50: 23_508_032, 101: 42_500_160, 152: 58_143_808}


def convolutions(depth):
    """Yield (name, name of its norm, shape), in the order of the official files."""
    last = 1 if depth < 50 else 4
    yield "conv1", "bn1", (64, 3, 7, 7)
    for stage, repeats in enumerate(BLOCKS[depth], 1):
        width = 32 * 2**stage
        for block in range(repeats):
            inputs = last * width if block else (64 if stage == 1 else last * width // 2)
            kernels = (3, 3) if last == 1 else (1, 3, 1)
            ends = [inputs, *[width] * (len(kernels) - 1), last * width]
            here = f"layer{stage}.{block}"
            for i, kernel in enumerate(kernels, 1):
                yield f"{here}.conv{i}", f"{here}.bn{i}", (ends[i], ends[i - 1], kernel, kernel)
            if block == 0 and inputs != last * width:
                name = f"{here}.downsample"
                yield f"{name}.0", f"{name}.1", (last * width, inputs, 1, 1)


def official(depth, *, counters=True, fc=True):
    """A state dict with the keys of an official file, and weights of our own."""
    g, state = generator(depth), {}
    for name, norm, shape in convolutions(depth):
        spread = (2 / (shape[1] * shape[2] ** 2)) ** 0.5
        state[f"{name}.weight"] = spread * torch.randn(shape, generator=g)
        for key, low in (("weight", 0.3), ("bias", -0.5), ("running_mean", -0.5)):
            state[f"{norm}.{key}"] = low + torch.rand(shape[0], generator=g)
        state[f"{norm}.running_var"] = 0.5 + torch.rand(shape[0], generator=g)
        if counters:
            state[f"{norm}.num_batches_tracked"] = torch.tensor(3)
    if fc:
        state |= {"fc.weight": torch.zeros(1000, 8), "fc.bias": torch.zeros(1000)}
    return state


def functional(state, depth, x):
    """The features by torch.nn.functional; strides as in torchvision, on the 3x3 convolution."""

    def layer(x, name, norm, stride=1):
        weight = state[f"{name}.weight"].double()
        x = F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        keys = ("running_mean", "running_var", "weight", "bias")
        return F.batch_norm(x, *(state[f"{norm}.{key}"].double() for key in keys))

    x = F.max_pool2d(layer(x, "conv1", "bn1", 2).relu(), 3, 2, 1)
    for stage, repeats in enumerate(BLOCKS[depth], 1):
        for block in range(repeats):
            here, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y, strided = x, "conv1" if depth < 50 else "conv2"
            names = ("conv1", "conv2") if depth < 50 else ("conv1", "conv2", "conv3")
            for name in names:
                y = y.relu() if name != "conv1" else y
                where = f"{here}.{name}", f"{here}.bn{name[-1]}"
                y = layer(y, *where, stride if name == strided else 1)
            if f"{here}.downsample.0.weight" in state:
                x = layer(x, f"{here}.downsample.0", f"{here}.downsample.1", stride)
            x = (x + y).relu()
    return x.flatten(2).transpose(1, 2)


def build(depth=18, g=None, **options):
    return create("resnet", depth=depth, **options).build(Build(g or generator()))


@pytest.fixture
def saved(tmp_path):
    def save(state, name="weights.pth", **options):
        path = tmp_path / name
        save_file(state, path) if path.suffix == ".safetensors" else torch.save(state, path, **options)
        return path

    return save


@pytest.mark.parametrize("depth", BLOCKS)
def test_it_has_the_official_parameters_and_colours(depth):
    with torch.device("meta"):
        network = ResNetwork(depth)
        expected = {key: value.shape for key, value in official(depth, fc=False).items()}
    assert {key: value.shape for key, value in network.state_dict().items()} == expected
    assert sum(p.numel() for p in network.parameters()) == WITHOUT_FC[depth]
    assert (network.mean, network.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@pytest.mark.parametrize("depth", [18, 50, pytest.param(152, marks=pytest.mark.slow)])
def test_features_are_those_of_the_functional_network(depth, saved):
    state = official(depth)
    network = build(depth, weights=saved(state)).double().eval()
    x = torch.randn(2, 3, 70, 96, generator=generator(1), dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(network(x), functional(state, depth, x), rtol=1e-9, atol=1e-9)


def test_files_of_every_kind_load_the_same(saved):
    state = official(18)
    legacy = saved(state, "legacy.pth", _use_new_zipfile_serialization=False)
    for file in (saved(state), legacy, saved(state, "weights.safetensors"), str(saved(state, "named by a string.pth"))):
        weights = build(weights=file).state_dict()
        assert all(torch.equal(weights[key], state[key]) for key in weights)


def test_a_file_without_counters_or_classifier_loads_and_draws_nothing(saved):
    path, g = saved(official(18, counters=False, fc=False)), generator()
    before = g.get_state()
    network = build(g=g, weights=path)
    assert network.bn1.num_batches_tracked == 0
    assert torch.equal(g.get_state(), before)


def without(state, *keys):
    return {key: value for key, value in state.items() if key not in keys}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: without(s, "layer1.0.conv1.weight"), r"lacks layer1\.0\.conv1\.weight \(1 in"),
        (lambda s: without(s, "bn1.running_var"), r"lacks bn1\.running_var"),
        (lambda s: s | {"head.bias": torch.zeros(2)}, r"unknown head\.bias \(1 in all\)"),
        (lambda s: s | {"conv1.weight": torch.zeros(64, 3, 3, 3)}, r"wrong shape for conv1\.weight"),
        (lambda s: official(34), r"unknown layer1\.2\..*, \.\.\. \(96 in all\)"),
        (lambda s: official(50), r"lacks|unknown|wrong shape"),
        (lambda s: {"state_dict": s, "epoch": 3}, r"not a state dict, got state_dict, epoch"),
        (lambda s: {0: torch.zeros(2)}, r"not a state dict, got 0"),
        (lambda s: [1, 2], r"not a state dict, got a list"),
    ],
)
def test_other_contents_are_a_format_error(change, message, saved):
    path = saved(change(official(18)))
    with pytest.raises(FormatError, match=message) as caught:
        build(weights=path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["weights.pth", "weights.safetensors"])
@pytest.mark.parametrize("content", [b"", b"not a file of tensors", b"\x80", 0.1, 0.999], ids=str)
def test_bytes_that_are_no_weights_are_a_format_error(name, content, saved):
    """Also files that were cut off."""
    path = saved(official(18), name)
    whole = path.read_bytes()
    path.write_bytes(content if isinstance(content, bytes) else whole[: int(content * len(whole))])
    with pytest.raises(FormatError, match=f"{name}: damaged"):
        build(weights=path)


@pytest.mark.parametrize("name", ["absent.pth", "absent.safetensors", "."])
def test_a_path_that_cannot_be_read_is_a_format_error(name, tmp_path):
    with pytest.raises(FormatError, match="cannot be read"):
        build(weights=tmp_path / name)


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_code_in_a_file_is_not_run(tmp_path):
    trace, path = tmp_path / "trace", tmp_path / "weights.pth"
    path.write_bytes(pickle.dumps(Trap(trace)))
    with pytest.raises(FormatError, match="not a file of tensors alone"):
        build(weights=path)
    assert not trace.exists()
