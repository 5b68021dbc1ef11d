import pytest
import torch

from pcme.nn.attention import LocalAttention, SeveralAttentions
from tests.helpers import generator

SITES = torch.randn(3, 4, 6, generator=generator(1), dtype=torch.float64)
MASK = torch.tensor([[True] * 4, [True, True, False, False], [True, False, False, False]])


@pytest.mark.parametrize("mask", [MASK, None], ids=["padded", "full"])
def test_against_a_loop(mask):
    attention = LocalAttention(6, generator=generator()).double()
    attended = attention(SITES, mask)
    for row in range(3):
        sites = SITES[row] if mask is None else SITES[row, mask[row]]
        shares = [torch.exp(attention.outer.weight @ torch.tanh(attention.inner.weight @ x)) for x in sites]
        expected = sum(w * x for w, x in zip(shares, sites, strict=True)) / sum(shares)
        assert torch.allclose(attended[row], expected, atol=1e-12)


def test_hidden_is_half_of_the_features_unless_given():
    assert LocalAttention(8, generator=generator()).inner.weight.shape == (4, 8)
    assert LocalAttention(8, generator=generator(), hidden=3).inner.weight.shape == (3, 8)


def test_several_attentions_are_as_many_single_ones():
    several = SeveralAttentions(6, 3, generator=generator()).double()
    views = several(SITES, MASK)
    for k in range(3):
        one = LocalAttention(6, generator=generator()).double()
        one.load_state_dict({"inner.weight": several.inner.weight, "outer.weight": several.outer.weight[k : k + 1]})
        assert torch.allclose(views[:, k], one(SITES, MASK), atol=1e-12)
