"""The graph over regions and the GRU that reads them, against loops."""

import math

import pytest
import torch

from pcme import Points
from pcme.errors import ConfigError, ShapeError
from pcme.nn.captioner import RegionPoints
from pcme.nn.heads import HeadOptions, HeadSizes
from pcme.nn.reasoning import RegionGraph, RegionHead
from tests.helpers import generator

OPTIONS = HeadOptions(4, covariance="none", mean_attention=False, mean_norm=False, reasoning=2, captioned=True)


def regions(*shape, seed=1):
    return torch.randn(shape or (3, 5, 4), generator=generator(seed), dtype=torch.float64)


def linear(layer, x):
    """The map of a vector, as lists."""
    rows = zip(layer.weight.tolist(), layer.bias.tolist(), strict=True)
    return [sum(w * v for w, v in zip(row, x, strict=True)) + bias for row, bias in rows]


def dot(x, y):
    return sum(a * b for a, b in zip(x, y, strict=True))


def graph_by_loop(layer, images):
    """V* = BN(W_r (R V W_g)) + V with R_ij = φ(v_i)·θ(v_j) / N; the norm is over all regions of the batch."""
    heard = []
    for image in images:
        count = len(image)
        said = [linear(layer.message, v) for v in image]
        for v in image:
            affinities = [dot(linear(layer.phi, v), linear(layer.theta, other)) / count for other in image]
            mixed = [sum(a * s[d] for a, s in zip(affinities, said, strict=True)) for d in range(len(v))]
            heard.append(linear(layer.back, mixed))
    columns = [[row[d] for row in heard] for d in range(len(heard[0]))]
    changes = []
    for d, column in enumerate(columns):
        mean = sum(column) / len(column)
        variance = sum((value - mean) ** 2 for value in column) / len(column)
        scale, shift = layer.norm.weight[d].item(), layer.norm.bias[d].item()
        changes.append([scale * (value - mean) / math.sqrt(variance + 1e-5) + shift for value in column])
    flat = [v for image in images for v in image]
    return [[v[d] + changes[d][n] for d in range(len(v))] for n, v in enumerate(flat)]


def test_a_layer_against_a_loop():
    layer, x = RegionGraph(4, generator()).double(), regions()
    with torch.no_grad():
        for parameter in (*layer.norm.parameters(), layer.message.bias, layer.phi.bias):
            parameter.copy_(torch.randn(4, generator=generator(2)))
    expected = torch.tensor(graph_by_loop(layer, x.tolist()), dtype=torch.float64)
    assert torch.allclose(layer(x).flatten(0, 1), expected, atol=1e-9)


def test_a_new_layer_is_the_identity():
    layer, x = RegionGraph(4, generator()).double(), regions()
    assert torch.equal(layer(x), x)


def unit_over_regions(image):
    lengths = [math.sqrt(sum(v[d] ** 2 for v in image)) for d in range(len(image[0]))]
    return [[value / length for value, length in zip(v, lengths, strict=True)] for v in image]


def gru_by_loop(gru, sequence):
    """The last state; gates in the order reset, update, new."""
    size = gru.hidden_size
    state = [0.0] * size
    into, onto = ((gru.weight_ih_l0, gru.bias_ih_l0), (gru.weight_hh_l0, gru.bias_hh_l0))
    for x in sequence:
        i, h = (
            [dot(row, v) + bias for row, bias in zip(weight.tolist(), biases.tolist(), strict=True)]
            for (weight, biases), v in ((into, x), (onto, state))
        )
        reset, update = ([1 / (1 + math.exp(-i[k] - h[k])) for k in range(s, s + size)] for s in (0, size))
        new = [math.tanh(i[2 * size + k] + reset[k] * h[2 * size + k]) for k in range(size)]
        state = [(1 - z) * n + z * old for z, n, old in zip(update, new, state, strict=True)]
    return state


def test_a_head_against_a_loop():
    head, x = RegionHead(HeadSizes(6, 6), OPTIONS, generator()).double(), regions(3, 5, 6)
    with torch.no_grad():
        for layer in head.layers:
            layer.norm.weight.fill_(0.5)
    found = head(x, x.mean(1), None)
    images = [unit_over_regions([linear(head.fc, v) for v in image]) for image in x.tolist()]
    for layer in head.layers:
        flat = graph_by_loop(layer, images)
        images = [flat[start : start + 5] for start in range(0, 15, 5)]
    images = [unit_over_regions(image) for image in images]
    assert isinstance(found, RegionPoints)
    assert torch.allclose(found.regions, torch.tensor(images, dtype=torch.float64), atol=1e-8)
    for row, image in enumerate(images):
        state = gru_by_loop(head.gru, image)
        length = math.sqrt(dot(state, state))
        assert torch.allclose(found.x[row, 0], torch.tensor([v / length for v in state]).double(), atol=1e-8)


def test_regions_are_carried_in_training_alone():
    head, x = RegionHead(HeadSizes(6, 6), OPTIONS, generator()).double(), regions(3, 5, 6)
    assert type(head.eval()(x, x.mean(1), None)) is Points
    silent = HeadOptions(4, covariance="none", reasoning=1)
    assert type(RegionHead(HeadSizes(6, 6), silent, generator()).double()(x, x.mean(1), None)) is Points


def test_one_vector_per_image_has_nothing_to_reason_over():
    head = RegionHead(HeadSizes(6, 6), OPTIONS, generator())
    with pytest.raises(ShapeError, match=r"at least 2 regions per image, got 1.*Give features \[n, regions, d\]"):
        head(torch.zeros(3, 1, 6), torch.zeros(3, 6), None)


@pytest.mark.parametrize(
    "wrong", [{}, {"covariance": "none", "points": 2}, {"covariance": "none", "means_given": True}]
)
def test_reasoning_makes_one_learned_point(wrong):
    with pytest.raises(ConfigError, match="one point per item"):
        HeadOptions(8, reasoning=4, **wrong)
