"""ResNet of Keras: against formulas on weights in Keras' own layout; and on real photographs, where weights are."""

import pytest
import torch
from PIL import Image
from safetensors.numpy import save_file
from safetensors.torch import load_file

from pcme.data.fetch.keras_resnet import torch_weights
from pcme.data.fetch.layers_model import read_layers_model
from pcme.data.images.transforms import ImageTransform, normalise
from pcme.errors import ConfigError, FormatError
from pcme.nn.backbone import Build
from pcme.nn.images import create
from pcme.nn.images.resnet_keras import KerasResNetwork
from tests.data.fetch.keras import REPEATS, features, tensors, write
from tests.helpers import generator, real, real_weights

FILE = "resnet50-keras.safetensors"


def build(**options):
    return create("resnet-keras", **({"repeats": REPEATS} | options)).build(Build(generator()))


def saved(folder, weights):
    """The file that `pcme data fetch resnet --source npm` makes of a package with these weights."""
    path = folder / FILE
    save_file(torch_weights(read_layers_model(write(folder / "ResNet50", weights)), "here", REPEATS), path)
    return path


@pytest.mark.parametrize(("height", "width"), [(64, 64), (70, 97)])
def test_features_are_those_that_keras_computes_of_the_pixels(tmp_path, height, width):
    weights = tensors()
    network = build(weights=saved(tmp_path, weights)).double().eval()
    pixels = torch.randint(0, 256, (2, 3, height, width), generator=generator(1), dtype=torch.uint8)
    with torch.no_grad():
        ours = network(normalise(pixels, network.mean, network.std).double())
    expected = features(weights, pixels)
    assert expected.std() > 1e-3
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5 * float(expected.abs().max()))


def test_without_repeats_it_is_a_resnet_50():
    with torch.device("meta"):
        network = KerasResNetwork(create("resnet-keras").repeats)
    assert sum(p.numel() for p in network.parameters()) == 23_508_032 + 26_560  # torchvision's, and the biases
    assert network.features == 2048


def test_a_file_of_another_layout_is_a_format_error(tmp_path):
    path = saved(tmp_path, tensors())
    with pytest.raises(FormatError, match=r"lacks layer2.2.bn1.bias"):
        build(weights=path, repeats=(1, 3, 1, 1))
    with pytest.raises(FormatError, match="not the weights of this ResNet"):
        create("resnet", depth=50, weights=path).build(Build(generator()))
    with pytest.raises(FormatError, match="cannot be read"):
        build(weights=tmp_path / "absent.safetensors")


@pytest.mark.parametrize("repeats", [(1, 1, 1), (1, 1, 0, 1)])
def test_repeats_are_four_numbers_from_1(repeats):
    with pytest.raises(ConfigError, match="repeats: must be four numbers from 1"):
        create("resnet-keras", repeats=repeats)


CLASSES = {"014.Indigo_Bunting": 14, "073.Blue_Jay": 17, "090.Red_breasted_Merganser": 98, "101.White_Pelican": 144}
"""{class of CUB: index of the same birds among ImageNet's classes}."""
PHOTOGRAPHS = 40


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSES)
def test_imagenets_classes_are_found_on_real_photographs(name):
    """At least .9 of the first photographs of a species have the right class of 1,000 first."""
    weights = real_weights(FILE)
    paths = sorted((real("cub") / "images" / name).glob("*.jpg"))[:PHOTOGRAPHS]
    state, network = load_file(weights), create("resnet-keras", weights=weights).build(Build(generator())).eval()
    transform = ImageTransform(size=224, crop="none")
    pixels = torch.stack([transform(Image.open(path).convert("RGB")) for path in paths])
    with torch.no_grad():
        pooled = network(normalise(pixels, network.mean, network.std)).mean(1)
    first = (pooled @ state["fc.weight"].T + state["fc.bias"]).argmax(1)
    assert (first == CLASSES[name]).float().mean() >= 0.9
