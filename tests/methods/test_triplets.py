"""Triplets against plain loops over anchors, positives and negatives; the warm start."""

import math

import pytest
import torch
from torch import nn

from pcme.methods.triplets import Triplets, best_cosine
from pcme.methods.vse import VSE0
from pcme.nn.heads import linear
from tests.helpers import generator
from tests.methods.batches import ALL, EYE, MATCHES, NONE, cosines, several, triplet_loss, unit

NEGATIVES = ["all", "hardest", "semi-hard"]


def triplets(negatives, positives="matches", warm_start=0.0):
    return Triplets(VSE0(negatives=negatives, positives=positives, warm_start=warm_start))


def similarities(seed=0):
    return unit(5, 3, seed=seed) @ unit(5, 3, seed=seed + 1).T


@pytest.mark.parametrize("positives", ["diagonal", "matches"])
@pytest.mark.parametrize("negatives", NEGATIVES)
def test_the_loss_against_a_loop(negatives, positives):
    similarity = similarities()
    true = EYE if positives == "diagonal" else MATCHES
    expected = triplet_loss(similarity.tolist(), true.tolist(), negatives)
    assert expected > 0.05
    assert math.isclose(triplets(negatives, positives)(similarity, MATCHES).item(), expected, rel_tol=1e-9)


@pytest.mark.parametrize("matches", [NONE, ALL], ids=["no positives", "no negatives"])
@pytest.mark.parametrize("negatives", NEGATIVES)
def test_without_positives_or_negatives_there_is_nothing_to_learn(negatives, matches):
    similarity = similarities().requires_grad_()
    loss = triplets(negatives)(similarity, matches)
    loss.backward()
    assert loss.item() == 0
    assert float(similarity.grad.abs().sum()) == 0


def test_the_best_cosine_against_a_loop():
    images, captions = several(k=3, seed=1), several(n=4, k=2, seed=2)
    torch.testing.assert_close(best_cosine(images, captions), torch.tensor(cosines(images, captions)).double())


# The warm start


def warming(steps=8):
    """An objective of which half a run of so many steps is warm."""
    objective = VSE0(negatives="hardest", warm_start=0.5).objective()
    objective.set_total_steps(steps)
    return objective


def test_it_is_a_share_of_the_run_and_goes_over_from_all_to_the_hardest():
    similarity = similarities()
    easy, hard = (triplets(n)(similarity, MATCHES).item() for n in ("all", "hardest"))
    assert triplets("hardest", warm_start=0.5).counted == "hardest", "without a run there is none"
    objective = warming()
    assert objective.report() == {"hardest": 0.0}
    assert [objective.triplets(similarity, MATCHES).item() for _ in range(6)] == [easy] * 4 + [hard] * 2
    assert objective.report() == {"hardest": 1.0}


def test_only_training_counts_as_a_step():
    loss = warming().triplets.eval()
    loss(similarities(), MATCHES)
    assert loss.steps.item() == 0


def learned(warm_start):
    """(mean of the last losses, R@1) of two small networks on noisy pairs, with large steps."""
    g, count, batch = generator(), 512, 64
    latent = torch.randn(count, 8, generator=g)
    sides, networks = [], []
    for _ in range(2):
        noise = 4 * torch.randn(count, 32, generator=g)
        sides.append(latent @ torch.randn(8, 32, generator=g) + noise)
        layers = [linear(32, 64, g), nn.ReLU(), linear(64, 16, g), nn.LayerNorm(16)]
        networks.append(nn.Sequential(*layers))

    def cosines(rows):
        pairs = zip(networks, sides, strict=True)
        x, y = (nn.functional.normalize(network(side[rows]), dim=1) for network, side in pairs)
        return x @ y.T

    optimiser = torch.optim.Adam([p for n in networks for p in n.parameters()], lr=0.1)
    objective = VSE0(negatives="hardest", positives="diagonal", warm_start=warm_start).objective()
    objective.set_total_steps(300)
    values = []
    for _ in range(300):
        similarity = cosines(torch.randperm(count, generator=g)[:batch])
        value = objective.triplets(similarity, torch.eye(batch, dtype=torch.bool))
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        values.append(value.item())
    found = cosines(slice(128)).argmax(1) == torch.arange(128)
    return sum(values[-20:]) / 20, found.float().mean().item()


def test_what_the_warm_start_is_for():
    """Cold, everything falls into one point, where the loss is twice the margin and stays so."""
    (cold, cold_recall), (warm, warm_recall) = learned(0.0), learned(0.5)
    assert cold == pytest.approx(0.4, abs=0.005)
    assert warm < 0.3
    assert warm_recall > 0.4 > 3 * cold_recall
