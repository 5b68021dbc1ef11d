"""Local attention against a loop; padding does not count."""

import torch

from pcme.nn.attention import LocalAttention, SeveralAttentions


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def made(features=6):
    return LocalAttention(features, generator=generator()).double()


def test_against_a_loop():
    attention = made()
    sites = torch.randn(3, 4, 6, generator=generator(1), dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True, True, False, False], [True, False, False, False]])
    for row in range(3):
        kept = [sites[row, s] for s in range(4) if mask[row, s]]
        logits = [(attention.outer.weight @ torch.tanh(attention.inner.weight @ x))[0] for x in kept]
        largest = max(logits)
        shares = [torch.exp(value - largest) for value in logits]
        expected = sum(w * x for w, x in zip(shares, kept, strict=True)) / sum(shares)
        assert torch.allclose(attention(sites, mask)[row], expected, atol=1e-12)


def test_what_lies_under_the_mask_changes_nothing():
    sites = torch.randn(2, 3, 6, generator=generator(3), dtype=torch.float64)
    mask = torch.tensor([[True, True, False]] * 2)
    other = sites.clone()
    other[:, 2] = 1e6
    assert torch.equal(made()(sites, mask), made()(other, mask))


def test_the_order_of_the_sites_does_not_matter():
    sites = torch.randn(2, 5, 6, generator=generator(4), dtype=torch.float64)
    order = torch.tensor([3, 1, 4, 0, 2])
    assert torch.allclose(made()(sites, None), made()(sites[:, order], None), atol=1e-12)


def test_the_weights_come_from_the_generator():
    state = torch.random.get_rng_state()
    first = LocalAttention(8, generator=generator(5)).state_dict()
    torch.rand(3)  # whatever else draws
    second = LocalAttention(8, generator=generator(5)).state_dict()
    torch.random.set_rng_state(state)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_hidden_is_half_of_the_features_unless_given():
    assert LocalAttention(8, generator=generator()).inner.weight.shape == (4, 8)
    assert LocalAttention(8, generator=generator(), hidden=3).inner.weight.shape == (3, 8)


def test_several_attentions_are_as_many_single_ones():
    several = SeveralAttentions(6, 3, generator=generator()).double()
    sites = torch.randn(2, 4, 6, generator=generator(1), dtype=torch.float64)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    found = several(sites, mask)
    for k in range(3):
        one = made()
        one.load_state_dict({"inner.weight": several.inner.weight, "outer.weight": several.outer.weight[k : k + 1]})
        assert torch.allclose(found[:, k], one(sites, mask), atol=1e-12)
