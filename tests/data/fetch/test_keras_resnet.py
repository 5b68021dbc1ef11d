"""Keras' names and axes become ours; what is missing, unknown or of another rank is named."""

import numpy as np
import pytest

from pcme.data.fetch.keras_resnet import RESNET50, torch_weights
from pcme.errors import FormatError
from tests.data.fetch.keras import REPEATS, shapes, tensors


def test_names_and_axes_of_some_tensors():
    theirs = tensors()
    ours = torch_weights(theirs, "here", REPEATS)
    assert len(ours) == len(theirs)
    pairs = {"layer2.1.conv2.weight": "res3b_branch2b/kernel", "layer4.0.downsample.0.weight": "res5a_branch1/kernel"}
    for mine, name in pairs.items():
        assert np.array_equal(ours[mine], theirs[name].transpose(3, 2, 0, 1))
    plain = {
        "bn1.running_var": "bn_conv1/moving_variance",
        "conv1.bias": "conv1/bias",
        "layer1.0.downsample.1.weight": "bn2a_branch1/gamma",
        "layer3.0.bn3.bias": "bn4a_branch2c/beta",
        "layer3.0.bn1.running_mean": "bn4a_branch2a/moving_mean",
    }
    assert all(np.array_equal(ours[mine], theirs[name]) for mine, name in plain.items())
    assert np.array_equal(ours["fc.weight"], theirs["fc1000/kernel"].T)
    for ours_at, theirs_at in ((0, 2), (1, 1), (2, 0)):  # red, green, blue; blue, green, red
        assert np.array_equal(
            ours["conv1.weight"][:, ours_at], theirs["conv1/kernel"][:, :, theirs_at].transpose(2, 0, 1)
        )
    assert all(values.flags.c_contiguous for values in ours.values())


def test_a_resnet_50_has_320_tensors_of_25_6_million_numbers():
    found = shapes(RESNET50, classes=1000)
    assert len(found) == 320
    numbers = sum(int(np.prod(shape)) for shape in found.values())
    assert numbers == 25_636_712  # as Keras counts them


def without(weights, *names):
    return {name: values for name, values in weights.items() if name not in names}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: without(w, "res5a_branch1/kernel"), r"lacks res5a_branch1/kernel \(1 in all\)"),
        (lambda w: without(w, "fc1000/bias", "bn_conv1/gamma"), r"lacks bn_conv1/gamma, fc1000/bias \(2 in all\)"),
        (lambda w: w | {"head/kernel": w["fc1000/kernel"]}, "has the unknown head/kernel"),
        (lambda w: w | {"res3b_branch2b/kernel": w["fc1000/kernel"]}, "res3b_branch2b/kernel must have 4 axes, got 2"),
        (lambda w: w | {"fc1000/kernel": w["conv1/kernel"]}, "fc1000/kernel must have 2 axes, got 4"),
        (lambda w: w | {"conv1/bias": w["fc1000/kernel"]}, "conv1/bias must have 1 axes, got 2"),
        (lambda w: {}, r"lacks bn2a_branch1/beta, bn2a_branch1/gamma, .*, \.\.\."),
    ],
)
def test_another_network_is_a_format_error(change, message):
    with pytest.raises(FormatError, match=rf"here: .*{message}"):
        torch_weights(change(tensors()), "here", REPEATS)
