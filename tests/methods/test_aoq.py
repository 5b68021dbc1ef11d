"""AOQ's quintuplets against a loop over the batch."""

import math

import pytest
import torch

from pcme import Points, methods
from pcme.errors import ConfigError, ShapeError
from pcme.methods.base import Mining
from tests.helpers import generator
from tests.methods.batches import cosine, transposed, unit

B = 4


def parts(seed):
    """Pairs, mined negatives and their partners: three parts of a batch."""
    return Points(unit(3 * B, 1, 5, seed=seed))


TRUE = torch.eye(3 * B, dtype=torch.bool)
TRUE[0, 1] = TRUE[1, 0] = True  # two pairs of one meaning
TRUE[B, B] = TRUE[B + 2, B + 2] = False  # of the pairs (î, ĉ) two are false,
TRUE[2 * B + 1, 2 * B + 1] = False  # of the pairs (i′, c′) one,
TRUE[3, B + 3] = True  # and a mined caption, written afresh, is true of its image after all


def begun(**params):
    objective = methods.create("vsrn-aoq", **params).objective()
    objective.offline = True
    return objective


def by_loop(images, captions, positives, *, margin=0.2, offline_margin=0.0, alpha=0.3, beta=1.5):
    """(rank, offline), pair by pair, means over the pairs."""
    s = [[cosine(x[0], y[0]) for y in captions.x] for x in images.x]
    rank = offline = 0.0
    for scores, true in ((s, TRUE.tolist()), (transposed(s), TRUE.T.tolist())):
        for k in range(B):
            mine = [n == k if positives == "diagonal" else true[k][n] for n in range(B)]
            hardest = max(scores[k][n] for n in range(B) if not mine[n])
            weight = beta - (scores[k][B + k] - hardest) / alpha
            over = [max(0.0, margin + hardest - scores[k][n]) for n in range(B) if mine[n]]
            rank += weight * sum(over) / len(over)
            if positives == "diagonal" or not true[k][B + k]:
                offline += max(0.0, offline_margin + scores[k][B + k] - s[k][k])
    for k in range(B):
        for n in (B + k, 2 * B + k):
            if not TRUE[n, n]:
                offline += max(0.0, offline_margin + s[n][n] - s[k][k])
    return rank / B, offline / B


@pytest.mark.parametrize("positives", ["matches", "diagonal"])
@pytest.mark.parametrize("settings", [{}, {"margin": 0.5, "offline_margin": 0.7, "alpha": 0.1, "beta": 2.0}])
def test_the_quintuplets_against_a_loop(positives, settings):
    images, captions = parts(1), parts(2)
    terms = begun(positives=positives, **settings)(images, captions, TRUE, generator())
    rank, offline = by_loop(images, captions, positives, **settings)
    assert offline > 0
    assert math.isclose(terms.values["rank"].item(), rank, rel_tol=1e-9)
    assert math.isclose(terms.values["offline"].item(), offline, rel_tol=1e-9)
    assert math.isclose(terms.total.item(), rank + offline, rel_tol=1e-6)


def test_gradients_are_those_of_finite_differences():
    """Through the weights too: they are part of what is minimised."""
    objective = begun(offline_margin=0.5)
    leaves = [parts(seed).x.requires_grad_() for seed in (1, 2)]

    def total(x, y):
        return objective(Points(x), Points(y), TRUE, generator()).total

    assert torch.autograd.gradcheck(total, leaves, eps=1e-6, atol=1e-4)


def test_an_anchor_that_all_captions_are_true_of_counts_nothing():
    everything = torch.ones_like(TRUE)
    leaves = [parts(seed).x.requires_grad_() for seed in (1, 2)]
    total = begun()(*map(Points, leaves), everything, generator()).total
    total.backward()
    assert total.item() == 0
    assert all(bool(leaf.grad.isfinite().all()) for leaf in leaves)


def test_before_negatives_are_mined_it_is_vsrn():
    images, captions = parts(1), parts(2)
    plain, begins = (methods.create(name).objective() for name in ("vsrn", "vsrn-aoq"))
    losses = [objective(images, captions, TRUE, generator()).total for objective in (plain, begins)]
    assert torch.equal(*losses)
    assert begins.report() == plain.report() == {}
    begins.offline = True
    assert begins.report() == {"hardest": 1.0}


def test_negatives_are_wanted_from_a_share_of_the_run_on():
    objective = methods.create("vsrn-aoq", candidates=7, positives="diagonal").objective()
    wanted = [objective.mining(epoch / 4, last=False) for epoch in range(4)]
    assert wanted == [None, None, Mining(7, "diagonal"), Mining(7, "diagonal")]
    assert objective.mining(0.0, last=True) == Mining(7, "diagonal"), "a single epoch"
    assert methods.create("vsrn").objective().mining(0.9, last=True) is None


def test_a_batch_that_is_not_in_three_parts_is_refused():
    with pytest.raises(ShapeError, match="three equal parts, got 11 images"):
        begun()(parts(1)[:11], parts(2)[:11], TRUE[:11, :11], generator())


@pytest.mark.parametrize("wrong", [{"offline_from": 1.0}, {"candidates": 0}, {"alpha": 0.0}, {"offline_margin": -0.1}])
def test_parameters_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        methods.create("vsrn-aoq", **wrong)
