from contextlib import suppress

import pytest
import torch
from torch import nn

from pcme.errors import ConfigError, ShapeError
from pcme.training.average import ExponentialAverage
from tests.training.trained import same


def norm_layer():
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))


def wander(module, seed):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            noise = torch.randn(tensor.shape, generator=generator)
            tensor.copy_(noise if tensor.is_floating_point() else torch.tensor(seed))


def weights_of(module):
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def test_the_average_is_the_weighted_mean_of_what_it_saw():
    module = norm_layer().double()
    average, seen = ExponentialAverage(module, decay=0.8), []
    for seed in range(1, 12):
        wander(module, seed)
        average.update(module)
        seen.append(weights_of(module))
    weights = [0.8 ** (10 - n) for n in range(11)]
    with average.apply_to(module):
        average_weights = weights_of(module)
    for name, _ in module.named_parameters():
        mean = sum(w * each[name] for w, each in zip(weights, seen, strict=True)) / sum(weights)
        torch.testing.assert_close(average_weights[name], mean, rtol=0, atol=1e-13)
    for name, _ in module.named_buffers():
        assert torch.equal(average_weights[name], seen[-1][name])


def test_weights_are_swapped_in_and_out_exactly_even_when_the_block_fails():
    module = norm_layer()
    average = ExponentialAverage(module, decay=0.9)
    first = weights_of(module)
    wander(module, 1)
    own, pointers = weights_of(module), [p.data_ptr() for p in module.parameters()]
    with suppress(KeyboardInterrupt), average.apply_to(module):
        assert same(weights_of(module), first)  # no update yet: as when it was made
        module(torch.ones(5, 3))  # moves the running statistics
        raise KeyboardInterrupt
    assert same(weights_of(module), own)
    assert [p.data_ptr() for p in module.parameters()] == pointers
    assert all(p.requires_grad for p in module.parameters())
    with average.apply_to(module):
        assert same(weights_of(module), first)


def test_a_restored_average_goes_on_bit_for_bit():
    module = norm_layer()
    straight, resumed = (ExponentialAverage(module, decay=0.9) for _ in range(2))
    for seed in range(8):
        wander(module, seed)
        straight.update(module)
        if seed == 3:
            resumed.load({k: t.clone() for k, t in straight.state().items()})
        elif seed > 3:
            resumed.update(module)
    assert same(straight.state(), resumed.state())
    assert straight.state()["updates"] == 8


def test_half_precision_is_averaged_in_single():
    module = nn.Linear(1, 1, bias=False).half()
    average = ExponentialAverage(module, decay=0.999)
    for value in (1.0, 1.0078125):
        nn.init.constant_(module.weight, value)
        for _ in range(50):
            average.update(module)
    mean = average.state()["mean.weight"]
    assert mean.dtype == torch.float32
    assert mean.item() == pytest.approx(1.0078125 - 0.0078125 * 0.4875, abs=1e-5)


def test_an_average_of_another_module_is_refused():
    average, other = ExponentialAverage(norm_layer(), decay=0.9), nn.Linear(3, 5)
    with pytest.raises(ShapeError, match="differs in"):
        average.update(other)
    with pytest.raises(ShapeError, match="differs in"), average.apply_to(other):
        pass
    with pytest.raises(ShapeError, match="first buffer"):
        average.load(ExponentialAverage(other, decay=0.9).state())


def test_a_decay_of_1_is_refused():
    with pytest.raises(ConfigError, match=r"decay .* got 1"):
        ExponentialAverage(nn.Linear(3, 5), decay=1.0)
