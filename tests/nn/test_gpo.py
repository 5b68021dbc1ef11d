"""GPO against loops, and where the heads use it."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from pcme.errors import ConfigError
from pcme.nn.backbone import Build
from pcme.nn.captions.gru import WordGRU
from pcme.nn.captions.precomputed import PrecomputedCaptions
from pcme.nn.gpo import GPO, encodings
from pcme.nn.heads import HeadOptions, HeadSizes, MeanHead, SigmaHead
from pcme.nn.towers import CaptionTower
from tests.helpers import generator

MASK = torch.tensor([[True] * 4, [True, True, False, False], [True, False, False, False]])


def features(*shape, seed=1):
    return torch.randn(shape or (3, 4, 5), generator=generator(seed), dtype=torch.float64)


def reference_weights(pool, count):
    """Of an item with so many sites: a bidirectional nn.GRU with the same weights reads the encodings."""
    gru = nn.GRU(pool.encoding, pool.ahead.hidden_size, batch_first=True, bidirectional=True).double()
    back = {f"{name}_reverse": value for name, value in pool.back.state_dict().items()}
    gru.load_state_dict({**pool.ahead.state_dict(), **back})
    codes = []
    for position in range(count):
        angles = [position / 10_000 ** (2 * i / pool.encoding) for i in range(pool.encoding // 2)]
        codes.append([f(angle) for angle in angles for f in (math.sin, math.cos)])
    states, _ = gru(torch.tensor([codes], dtype=torch.float64))
    ahead, behind = states[0].chunk(2, -1)
    logits = [float(pool.score.weight[0] @ (a + b) / 2) / 0.1 for a, b in zip(ahead, behind, strict=True)]
    total = sum(map(math.exp, logits))
    return [math.exp(logit) / total for logit in logits]


@pytest.mark.parametrize("mask", [None, MASK], ids=["all", "some"])
@torch.no_grad()
def test_gpo_against_a_loop(mask):
    pool, x = GPO(generator=generator(), encoding=6, hidden=4).double(), features()
    found = pool(x, mask)
    for row in range(3):
        count = 4 if mask is None else int(mask[row].sum())
        weights = reference_weights(pool, count)
        for d in range(5):
            falling = sorted((float(x[row, s, d]) for s in range(count)), reverse=True)
            expected = sum(w * v for w, v in zip(weights, falling, strict=True))
            assert math.isclose(found[row, d].item(), expected, rel_tol=1e-5, abs_tol=1e-6)


def test_sites_in_any_order_and_padding_of_any_value_give_the_same():
    pool, x = GPO(generator=generator()).double(), features()
    assert torch.allclose(pool(x, None), pool(x[:, [2, 0, 3, 1]], None))
    other = torch.where(MASK[..., None], x, 1e6)
    assert torch.allclose(pool(x, MASK), pool(other, MASK))


def test_equal_logits_are_the_mean():
    pool, x = GPO(generator=generator()).double(), features()
    nn.init.zeros_(pool.score.weight)
    assert torch.allclose(pool(x, None), x.mean(1))
    weights = pool.weights(MASK.sum(1), 4)
    assert torch.allclose(weights, MASK / MASK.sum(1, keepdim=True).double())


def test_gradients_reach_features_and_weights():
    pool, x = GPO(generator=generator(), encoding=4, hidden=3).double(), features().requires_grad_()
    assert torch.autograd.gradcheck(lambda items: pool(items, MASK), (x,), atol=1e-4)
    pool(x, MASK).square().sum().backward()
    assert all(bool(p.grad.isfinite().all()) and float(p.grad.abs().sum()) > 0 for p in pool.parameters())
    assert x.grad[~MASK].abs().sum() == 0


def test_encodings_are_sines_and_cosines_in_turn():
    codes = encodings(3, 4, torch.device("cpu"))
    for position in range(3):
        expected = [math.sin(position), math.cos(position), math.sin(position / 100), math.cos(position / 100)]
        assert torch.allclose(codes[position], torch.tensor(expected), atol=1e-6)


def test_the_base_of_a_head_is_the_pooled_map_of_the_sites():
    options = HeadOptions(8, mean_attention=False, sigma_attention=False, bounds=None, pooling="gpo", mean_norm=False)
    local, pooled = torch.randn(3, 4, 6, generator=generator(1)), torch.zeros(3, 5)
    mean = MeanHead(HeadSizes(6, 5), options, generator())
    assert torch.allclose(mean(local, pooled, None), F.normalize(mean.pool(mean.base(local), None), dim=-1), atol=1e-6)
    sigma = SigmaHead(HeadSizes(6, 5, project=False), options, generator())
    expected = sigma.pool(sigma.base(local), MASK) - 3.5
    assert torch.allclose(sigma(local, pooled, MASK), expected, atol=1e-5)


def test_mean_pooling_is_the_default_and_has_no_weights():
    for head in (MeanHead, SigmaHead):
        plain, named = (head(HeadSizes(6, 5), o, generator()) for o in (HeadOptions(8), HeadOptions(8, pooling="mean")))
        assert not [name for name in plain.state_dict() if "pool" in name]
        assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), named.parameters(), strict=True))


def test_a_sentence_vector_is_not_pooled_again_but_tokens_are():
    options = HeadOptions(8, pooling="gpo")
    sentences = CaptionTower(WordGRU(Build(generator(), 8, True, torch.randn(9, 5))), options, generator=generator())
    tokens = CaptionTower(PrecomputedCaptions(5), options, generator=generator())
    assert sentences.heads.mean.pool is None
    assert tokens.heads.mean.pool is not None
    assert tokens(torch.randn(2, 3, 5, generator=generator(2)), torch.tensor([3, 1])).mean.shape == (2, 8)


def test_a_pooling_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="pooling: must be one of mean, gpo"):
        HeadOptions(8, pooling="max")
