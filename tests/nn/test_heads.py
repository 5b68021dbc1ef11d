import pytest
import torch
from torch.nn import functional as F

from pcme.errors import ConfigError
from pcme.nn.heads import GivenMean, HeadOptions, HeadSizes, MeanHead, PointsHead, SigmaHead, softly_bounded
from tests.helpers import generator


def inputs(seed=1, batch=3, sites=4, local=6, pooled=5):
    g = generator(seed)
    return torch.randn(batch, sites, local, generator=g), torch.randn(batch, pooled, generator=g)


def test_given_means_are_the_vectors_about_the_centre_of_what_was_trained_on():
    head = GivenMean(5, HeadOptions(5, means_given=True)).eval()
    parts = [inputs(seed, batch) for seed, batch in ((1, 3), (2, 7))]
    units = [F.normalize(pooled, dim=1) for _, pooled in parts]
    assert torch.allclose(head(parts[0][0], 3 * parts[0][1], None), units[0]), "untrained, with its own cosines"
    head.train()
    for local, pooled in parts:
        head(local, pooled, None)
    head.eval()
    centre = torch.cat(units).mean(0)
    assert torch.allclose(head.centre, centre, atol=1e-6)
    assert torch.allclose(head(*parts[1], None), F.normalize(units[1] - centre, dim=1), atol=1e-6)


@pytest.mark.parametrize(("pooled", "points"), [(6, 1), (5, 2)])
def test_vectors_that_cannot_be_means_are_refused(pooled, points):
    options = HeadOptions(5, covariance="none", points=points, means_given=True)
    with pytest.raises(ConfigError, match='means="given" takes'):
        GivenMean(pooled, options)


@pytest.mark.parametrize("bounds", [None, (-4.0, 1.0)])
@pytest.mark.parametrize("squashed", [False, True])
def test_log_sigma_is_a_plain_sum_about_its_start(squashed, bounds):
    """Squashed, it has the sigmoid and the norm; with bounds, it approaches them and does not pass."""
    options = HeadOptions(8, log_sigma=-3.0, bounds=bounds, sigma_squashed=squashed)
    head = SigmaHead(HeadSizes(6, 5), options, generator())
    local, spread = inputs()
    spread = 5 * spread  # beyond the narrow bounds
    base = spread @ head.base.weight.T + head.base.bias
    seen = head.attention(local, None) @ head.fc.weight.T + head.fc.bias
    expected = F.layer_norm(base + torch.sigmoid(seen), (8,)) if squashed else base + seen
    expected = expected - 3.0 if bounds is None else softly_bounded(expected - 3.0, *bounds)
    assert torch.allclose(head(local, spread, None), expected, atol=1e-5)


def test_a_sentence_vector_is_the_base_itself():
    head = MeanHead(HeadSizes(6, 8, project=False), HeadOptions(8, mean_attention=False), generator())
    local, pooled = inputs(pooled=8)
    assert torch.allclose(head(local, pooled, None), F.normalize(F.layer_norm(pooled, (8,)), dim=-1), atol=1e-6)


@pytest.mark.parametrize("attends", [True, False])
@pytest.mark.parametrize("project", [True, False])
def test_without_the_norm_the_mean_is_a_sum_of_length_one(attends, project):
    """Without attention too, it is the base alone: a linear map, or the sentence vector."""
    options = HeadOptions(8, mean_attention=attends, mean_norm=False)
    head = MeanHead(HeadSizes(6, 8, project=project), options, generator())
    local, pooled = inputs(pooled=8)
    base = F.linear(pooled, head.base.weight, head.base.bias) if project else pooled
    total = base + torch.sigmoid(head.fc(head.attention(local, None))) if attends else base
    assert torch.allclose(head(local, pooled, None), total / total.norm(dim=1, keepdim=True), atol=1e-6)
    assert not any("norm" in name for name in head.state_dict())


@pytest.mark.parametrize("norm", [True, False])
def test_without_length_one_the_mean_is_what_would_be_brought_to_it(norm):
    """Without the norm too, it is the projection of §C.3. Of two numbers the norm leaves a sign each."""
    local, pooled = inputs()
    plain, unit = (
        MeanHead(HeadSizes(6, 5), HeadOptions(2, mean_attention=False, mean_norm=norm, mean_unit=u), generator())
        for u in (False, True)
    )
    mean, base = plain(local, pooled, None), F.linear(pooled, plain.base.weight, plain.base.bias)
    assert torch.allclose(F.normalize(mean, dim=1), unit(local, pooled, None))
    assert torch.allclose(mean, F.layer_norm(base, (2,)) if norm else base)
    signs = mean.detach().sign()
    assert torch.allclose(mean, signs, atol=0.05) == norm


def test_without_attention_the_sites_do_not_matter():
    options = HeadOptions(8, mean_attention=False, sigma_attention=False)
    for cls in (MeanHead, SigmaHead):
        head = cls(HeadSizes(6, 5), options, generator())
        local, pooled = inputs()
        assert torch.equal(head(local, pooled, None), head(local + 1, pooled, None))


def test_the_soft_bound_is_smooth_monotone_and_keeps_within():
    x = torch.linspace(-50, 50, 2001, dtype=torch.float64, requires_grad=True)
    y = softly_bounded(x, -8.0, 2.0)
    assert float(y.detach().min()) >= -8 - 1e-4
    assert float(y.detach().max()) <= 2
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert bool((slope >= 0).all())
    inner = (x > -5) & (x < -1)
    assert float(slope[inner].min()) > 0.9
    assert float((y - x).detach().abs()[inner].max()) < 0.1


@pytest.mark.parametrize(
    "wrong",
    [
        {"covariance": "full"}, {"log_sigma": -20.0}, {"log_sigma": 2.0}, {"dim": 0}, {"points": 0},
        {"points": 2}, {"points": 2, "covariance": "none", "mean_attention": False},
        {"points": 2, "covariance": "none", "mean_norm": False},
        {"points": 2, "covariance": "none", "mean_unit": False},
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(wrong):
    """Also two points with a sigma, or from no attention."""
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        HeadOptions(**{"dim": 8, **wrong})


@pytest.mark.parametrize("count", [1, 3])
def test_points_are_those_of_figure_3_and_pvse(count):
    options = HeadOptions(8, covariance="none", points=count)
    head = PointsHead(HeadSizes(6, 5), options, generator())
    local, pooled = inputs()
    found = head(local, pooled, None)
    base = pooled @ head.base.weight.T + head.base.bias
    for k in range(count):
        logits = torch.tanh(local @ head.attention.inner.weight.T) @ head.attention.outer.weight[k]
        attended = (torch.softmax(logits, 1)[:, :, None] * local).sum(1)
        residual = torch.sigmoid(attended @ head.fc.weight.T + head.fc.bias)
        assert torch.allclose(found.residuals[:, k], residual, atol=1e-6)
        expected = F.normalize(F.layer_norm(base + residual, (8,)), dim=-1)
        assert torch.allclose(found.x[:, k], expected, atol=1e-6)


def test_one_point_is_the_mean():
    """Which is that of Fig. 3 by the test above."""
    options = HeadOptions(8, covariance="none")
    mean, point = (cls(HeadSizes(6, 5), options, generator()) for cls in (MeanHead, PointsHead))
    assert mean.state_dict().keys() == point.state_dict().keys()
    local, pooled = inputs()
    mask = torch.tensor([[True] * 4, [True] * 2 + [False] * 2, [True] * 3 + [False]])
    assert torch.allclose(mean(local, pooled, mask), point(local, pooled, mask).x[:, 0], atol=1e-6)


@pytest.mark.parametrize("head", [MeanHead, SigmaHead, PointsHead])
def test_under_autocast_only_the_attention_is_in_16_bits(head):
    options = HeadOptions(8, covariance="none", points=2) if head is PointsHead else HeadOptions(8)
    network = head(HeadSizes(6, 5), options, generator())
    local, pooled = inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = network(local, pooled, None)
    wide = network(local, pooled, None)
    if head is PointsHead:
        narrow, wide = narrow.x, wide.x
    assert narrow.dtype == torch.float32
    assert not torch.equal(narrow, wide)
    assert torch.allclose(narrow, wide, atol=0.02)
