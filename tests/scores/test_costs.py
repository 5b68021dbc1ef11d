"""Costs: the paper's Table 1, and the multiply-adds that torch counts while a block is scored."""

from dataclasses import dataclass

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pcme import Gaussian, Points, scores
from pcme.scores import Cost, Score

DIM = 96
ITEMS = Gaussian(torch.zeros(2, DIM), torch.zeros(2, DIM))

SPACE = {
    "average_l2": "O(JN)",
    "bhattacharyya": "O(2N)",
    "csd": "O(N)",
    "csd_prob": "O(N)",
    "elk": "O(2N)",
    "jeffreys": "O(2N)",
    "kl": "O(2N)",
    "match_prob": "O(2N)",
    "mean": "O(N)",
    "nearest": "O(JN)",
    "overlap": "O(2N)",
    "reverse_kl": "O(2N)",
    "w2": "O(2N)",
}
"""Paper: Table 1 where it has the score; O(JN) in place of its O(J²N)."""

KERNELS = ("bhattacharyya", "elk", "overlap")
"""Computed by a compiled loop, which torch does not see."""


@pytest.mark.parametrize("name", scores.names())
def test_every_score_has_the_space_of_the_papers_table(name):
    assert scores.create(name).cost(ITEMS).space == SPACE[name]


@pytest.mark.parametrize("name", [name for name in scores.names() if name not in KERNELS])
def test_work_is_what_torch_counts_in_a_block(name):
    """A whole block's products, for 480 x 480 pairs; norms that ride along are within 5 %."""
    generator = torch.Generator().manual_seed(0)
    mean = torch.nn.functional.normalize(torch.randn(480, DIM, generator=generator))
    many = Gaussian(mean, torch.full((480, DIM), -3.0))
    score = scores.create(name)
    with FlopCounterMode(display=False) as counted:
        score(many, many)
    work = score.cost(many).work
    assert counted.get_total_flops() / 2 / 480**2 == pytest.approx(work, rel=0.05)


def test_the_steps_of_the_density_kernel_are_those_in_its_source():
    """Operators between numbers of a group of four dimensions; a sum of products is one step."""
    import ast
    import inspect
    import textwrap

    from pcme.kernels import compiled

    source = ast.parse(textwrap.dedent(inspect.getsource(compiled._make_sums)))
    loops = [node for node in ast.walk(source) if isinstance(node, ast.For)]
    inner = min(
        (loop for loop in loops if any(isinstance(n, ast.Div) for n in ast.walk(loop))),
        key=lambda loop: len(ast.dump(loop)),
    )
    plain = [node for node in ast.walk(inner) if isinstance(node, (ast.BinOp, ast.AugAssign))]
    fused_sums = [
        node
        for node in plain
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.BinOp)
    ]
    assert len(plain) - len(fused_sums) == 4 * 6
    assert scores.create("elk").cost(ITEMS).work == 6 * DIM


def test_numbers_and_bytes_of_what_is_kept():
    assert scores.create("mean").cost(ITEMS).numbers == DIM + 1  # its own norm comes along
    assert scores.create("w2").cost(ITEMS).numbers == 2 * DIM
    isotropic = Gaussian(torch.zeros(1, DIM), torch.zeros(1, 1))
    assert scores.create("w2").cost(isotropic).numbers == DIM + 1
    double = ITEMS.to(torch.float64)
    assert scores.create("kl").cost(double).bytes == 16 * DIM
    assert scores.create("match_prob", method="sampled", samples=3).cost(ITEMS) == Cost(
        3 * DIM, 12 * DIM, "O(JN)", 9 * DIM
    )


def test_points_keep_themselves_and_are_not_sampled():
    points = Points(torch.zeros(2, 4, DIM))
    assert scores.create("nearest").cost(points) == Cost(4 * DIM, 16 * DIM, "O(4N)", 16 * DIM)
    single = Points(torch.zeros(2, 1, DIM))
    assert scores.create("mean").cost(single) == Cost(DIM, 4 * DIM, "O(N)", DIM)


@dataclass(frozen=True)
class Formula(Score):
    """A score of which only the formula is known."""

    def pairs(self, queries, gallery):
        return -(queries.mean - gallery.mean).abs().sum(-1)


def test_a_bare_formula_has_space_but_no_count_of_steps():
    assert Formula().cost(ITEMS) == Cost(2 * DIM, 8 * DIM, "O(2N)", None)
