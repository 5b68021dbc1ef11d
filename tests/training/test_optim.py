import math
from collections import Counter
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from pcme.errors import ConfigError
from pcme.kernels.devices import torch_only
from pcme.training.optim import AdamP, clip_gradients, cosine_with_warmup

STEPS = 200
HYPER = pytest.mark.parametrize(("weight_decay", "nesterov"), [(0.0, False), (0.0, True), (0.1, False), (0.1, True)])


class Net(nn.Module):
    """Weights that are scale-invariant by row (before a batch norm), as a whole, and not at all."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(0)

        def draw(*shape):
            return nn.Parameter(0.3 * torch.randn(shape, generator=generator))

        self.convolved, self.gain, self.shift = draw(6, 3, 3, 3), draw(6), draw(6)
        self.whole = draw(8, 6)
        self.plain, self.bias = draw(4, 8), draw(4)
        self.scale = draw()
        self.unused = draw(3, 3)

    def forward(self, x):
        x = F.conv2d(x, self.convolved, padding=1)
        x = F.batch_norm(x, None, None, self.gain, self.shift, training=True).relu()
        x = F.normalize(F.linear(x.mean((2, 3)), self.whole))
        return F.linear(x, self.plain, self.bias) * self.scale.exp()


def batches(count, dtype=torch.float32):
    generator = torch.Generator().manual_seed(7)
    for _ in range(count):
        x = torch.randn(8, 3, 5, 5, generator=generator, dtype=dtype)
        yield x, torch.randint(4, (8,), generator=generator)


def backward(net, x, label):
    net.zero_grad()
    F.cross_entropy(net(x), label).backward()


def step_together(net, optimiser, other, optimiser_of_other, *, count):
    """Steps of two optimisers along the gradients of the first network."""
    for x, label in batches(count):
        backward(net, x, label)
        for p, q in zip(net.parameters(), other.parameters(), strict=True):
            q.grad = None if p.grad is None else p.grad.clone()
        optimiser.step()
        optimiser_of_other.step()


def oracle_step(w, g, state, *, lr, betas, eps, weight_decay, delta, wd_ratio, nesterov):
    """One step of AdamP on float64 arrays, row by row; returns (new weight, which projection)."""
    b1, b2 = betas
    state["t"] += 1
    state["m"] = b1 * state["m"] + (1 - b1) * g
    state["v"] = b2 * state["v"] + (1 - b2) * g * g
    m = b1 * state["m"] + (1 - b1) * g if nesterov else state["m"]
    c1, c2 = 1 - b1 ** state["t"], 1 - b2 ** state["t"]
    p = (m / c1) / (np.sqrt(state["v"] / c2) + eps)
    views = {"row": (len(w), -1), "whole": (1, -1)} if w.ndim > 1 else {}
    for kind, shape in views.items():
        rows = list(zip(w.reshape(shape), g.reshape(shape), p.reshape(shape), strict=True))
        cosines = [abs(a @ b) / (max(np.linalg.norm(a), eps) * max(np.linalg.norm(b), eps)) for a, b, _ in rows]
        if max(cosines) < delta / math.sqrt(len(rows[0][0])):
            units = [a / (np.linalg.norm(a) + eps) for a, _, _ in rows]
            moved = [d - u * (u @ d) for u, (_, _, d) in zip(units, rows, strict=True)]
            step = np.stack(moved).reshape(w.shape)
            return (1 - lr * weight_decay * wd_ratio) * w - lr * step, kind
    return (1 - lr * weight_decay) * w - lr * p, "none"


@HYPER
def test_adamp_equals_a_loop_in_numpy_on_every_branch(weight_decay, nesterov):
    options = {"lr": 0.01, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": weight_decay}
    options |= {"delta": 0.1, "wd_ratio": 0.2, "nesterov": nesterov}
    net = Net().double()
    optimiser = AdamP(net.parameters(), **options)
    expected = {n: p.detach().numpy().copy() for n, p in net.named_parameters() if n != "unused"}
    states = {n: {"t": 0, "m": np.zeros_like(w), "v": np.zeros_like(w)} for n, w in expected.items()}
    taken = Counter()
    for x, label in batches(STEPS, torch.float64):
        backward(net, x, label)
        for name, w in expected.items():
            gradient = net.get_parameter(name).grad.numpy()
            expected[name], kind = oracle_step(w, gradient, states[name], **options)
            taken[name, kind] += 1
        optimiser.step()
    assert taken["convolved", "row"] > 0.9 * STEPS
    assert taken["whole", "whole"] > 0.9 * STEPS
    assert taken["plain", "none"] > 0.5 * STEPS
    for name, w in expected.items():
        np.testing.assert_allclose(net.get_parameter(name).detach().numpy(), w, rtol=0, atol=1e-11)


@HYPER
def test_adamp_equals_the_authors_package_in_single_precision(weight_decay, nesterov, monkeypatch):
    adamp = pytest.importorskip("adamp")
    projection, taken = adamp.AdamP._projection, Counter()

    def noted(self, p, *args):
        perturbation, ratio = projection(self, p, *args)
        taken[tuple(p.shape), "projected" if ratio != 1 else "none"] += 1
        return perturbation, ratio

    monkeypatch.setattr(adamp.AdamP, "_projection", noted)
    options = {"lr": 0.01, "weight_decay": weight_decay, "nesterov": nesterov}
    net, other = Net(), Net()
    ours, theirs = AdamP(net.parameters(), **options), adamp.AdamP(other.parameters(), **options)
    start = {name: p.detach().clone() for name, p in net.named_parameters()}
    step_together(net, ours, other, theirs, count=STEPS)
    assert taken[(6, 3, 3, 3), "projected"] > 0.9 * STEPS
    assert taken[(8, 6), "projected"] > 0.9 * STEPS
    assert taken[(4, 8), "none"] > 0.5 * STEPS
    for name, p in other.named_parameters():
        torch.testing.assert_close(net.get_parameter(name), p, rtol=0, atol=1e-6)
        assert name == "unused" or (p - start[name]).abs().max() > 0.01


@HYPER
def test_adamp_on_other_devices_makes_the_same_steps(weight_decay, nesterov):
    """Without a look at the data between two of its operations."""
    options = {"lr": 0.02, "weight_decay": weight_decay, "nesterov": nesterov}
    nets = [Net(), Net()]
    optimisers = [AdamP(net.parameters(), **options) for net in nets]
    for x, label in batches(60):
        for net, optimiser, path in zip(nets, optimisers, (nullcontext, torch_only), strict=True):
            with path():
                backward(net, x, label)
                clip_gradients(net.parameters(), 1.0)
                optimiser.step()
    for ours, expected in zip(*(net.parameters() for net in nets), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


def test_memory_layout_does_not_matter():
    net, other = Net(), Net()
    other.convolved.data = other.convolved.data.to(memory_format=torch.channels_last)
    options = {"lr": 0.01, "weight_decay": 0.1}
    step_together(net, AdamP(net.parameters(), **options), other, AdamP(other.parameters(), **options), count=3)
    assert not other.convolved.is_contiguous()
    torch.testing.assert_close(net.convolved, other.convolved, rtol=0, atol=1e-6)


def test_parameters_may_differ_in_their_number_of_steps():
    alone, both, late = (nn.Parameter(torch.ones(3)) for _ in range(3))
    optimiser, single = AdamP([late, both], lr=0.1), AdamP([alone], lr=0.1)
    for number in range(6):
        alone.grad = both.grad = torch.full((3,), float(number + 1))
        late.grad = None if number < 4 else torch.ones(3)
        optimiser.step()
        single.step()
    assert torch.equal(alone, both)
    torch.testing.assert_close(late.detach(), torch.full((3,), 0.8))  # Adam's step is lr at first


def test_zero_empty_and_missing_gradients_are_harmless():
    zero, empty, missing = (nn.Parameter(torch.ones(shape)) for shape in [(2, 2), (0, 3), (2,)])
    zero.grad, empty.grad = torch.zeros(2, 2), torch.zeros(0, 3)
    optimiser = AdamP([zero, empty, missing], lr=0.1)
    optimiser.step()
    assert torch.equal(zero, torch.ones(2, 2))
    assert missing not in optimiser.state


def test_groups_have_their_own_rates_and_a_closure_its_loss():
    a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
    optimiser = AdamP([{"params": [a]}, {"params": [b], "lr": 0.0}], lr=0.1)

    def closure():
        loss = (a + b).sum()
        loss.backward()
        return loss.item()

    assert optimiser.step(closure) == 4
    assert torch.equal(b, torch.ones(2))
    torch.testing.assert_close(a.detach(), torch.full((2,), 0.9))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AdamP([], lr=-1.0), "AdamP: lr"),
        (lambda: AdamP([], lr=math.nan), "AdamP: lr"),
        (lambda: AdamP([], lr=1.0, betas=(0.9, 1.0)), "AdamP: both betas"),
        (lambda: AdamP([], lr=1.0, eps=-1e-8), "AdamP: eps"),
        (lambda: cosine_with_warmup(-1, total=5, warmup=0), "a schedule needs"),
        (lambda: cosine_with_warmup(0, total=5, warmup=6), "a schedule needs"),
        (lambda: cosine_with_warmup(0, total=5, warmup=-1), "a schedule needs"),
        (lambda: clip_gradients([], 0.0), "must be positive"),
    ],
)
def test_impossible_settings_are_refused(call, message):
    with pytest.raises(ConfigError, match=message):
        call()


def test_sparse_gradients_are_refused_and_move_nothing():
    table = nn.Embedding(3, 2, sparse=True)
    before = table.weight.detach().clone()
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(ConfigError, match="dense gradients"):
        AdamP(table.parameters(), lr=1.0).step()
    assert torch.equal(table.weight, before)


@given(st.integers(1, 60), st.integers(0, 60))
def test_the_schedule_rises_on_a_line_and_falls_as_torchs(fall, warmup):
    total = warmup + fall
    factors = [cosine_with_warmup(step, total=total, warmup=warmup) for step in range(total + 3)]
    assert factors[:warmup] == [(step + 1) / warmup for step in range(warmup)]
    assert factors[total:] == [0] * 3
    optimiser = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, fall)
    for factor in factors[warmup:total]:
        assert factor == pytest.approx(scheduler.get_last_lr()[0], abs=1e-12)
        optimiser.step()
        scheduler.step()


def with_gradients(*gradients):
    params = [nn.Parameter(torch.zeros(len(values))) for values in gradients]
    for p, values in zip(params, gradients, strict=True):
        p.grad = torch.tensor(values)
    return params


@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), max_size=5), max_size=4), st.floats(0.1, 9))
def test_clipping_scales_to_the_limit_and_never_up(rows, limit):
    params = [nn.Parameter(torch.ones(1)), *with_gradients(*rows)]
    before = [p.grad.clone() for p in params[1:]]
    norm = np.linalg.norm(np.array([x for row in rows for x in row], np.float64))
    total = clip_gradients(params, limit)
    assert total.shape == ()
    assert total.item() == pytest.approx(norm, rel=1e-5)
    factor = min(1, limit / norm) if norm else 1
    for p, g in zip(params[1:], before, strict=True):
        torch.testing.assert_close(p.grad, g * factor, rtol=1e-5, atol=1e-30)
    if norm < 0.999 * limit:
        assert all(torch.equal(p.grad, g) for p, g in zip(params[1:], before, strict=True))
    assert params[0].grad is None


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_norm_that_is_not_finite_leaves_the_gradients_untouched(bad):
    params = with_gradients([3.0, bad], [400.0])
    assert not clip_gradients(params, 1.0).isfinite()
    assert [p.grad.tolist() for p in params] == [[3.0, pytest.approx(bad, nan_ok=True)], [400.0]]


def test_nothing_to_clip_has_norm_zero_and_no_limit_is_none():
    assert clip_gradients([], 1.0) == 0
    params = with_gradients([3e8])
    assert clip_gradients(iter(params), math.inf) == params[0].grad == 3e8
