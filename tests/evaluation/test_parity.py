import pytest
import torch

from pcme import methods, scores
from pcme.evaluation import parity

NAMES = [f"{kind} {name}" for name in scores.names() for kind in ("score", "top-k")]
NAMES += [f"loss {name}" for name in methods.names()]
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, needs_cuda])])
def test_every_score_top_k_and_loss_is_what_the_compiled_loops_give(device):
    checks = {check.name: check for check in parity.parity(torch.device(device))}
    assert list(checks) == NAMES
    assert {name: check.difference for name, check in checks.items() if not check.ok} == {}


def test_a_difference_is_relative_and_infinite_where_only_one_is_finite():
    two, inf = torch.tensor([1.0, 99.0]), torch.tensor([3.0, float("inf")])
    assert parity._difference(two + 1, two) == pytest.approx(0.01)
    assert parity._difference(inf, two) == parity._difference(two, inf) == float("inf")
    assert parity._difference(inf, inf) == 0
