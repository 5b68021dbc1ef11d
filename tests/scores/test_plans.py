"""Plans: blocks and candidates of every kind are the formula; their work and memory; blocks that fit."""

import ast
import inspect
import textwrap
from types import SimpleNamespace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pcme import Gaussian, Points, scores
from pcme.kernels import compiled
from pcme.scores import plans
from tests.helpers import generator, unless_annotations_are_enforced
from tests.scores.worlds import FORMULAS, normals, over, sides

DIM = 96
KERNELS = ("bhattacharyya", "elk", "overlap", "ppk")
"""Computed by a compiled loop, which torch does not see."""


@over("score", [score for score in FORMULAS if score.name != "match_prob"])
def test_blocks_and_candidates_are_the_formula(score):
    queries, items = sides(torch.float64, items=60)
    rows, ids = torch.tensor([5, 0, 8]), torch.randint(60, (3, 7), generator=generator())
    plan = score.plan(queries, items)
    expected = torch.stack([score.pairs(normals(queries[[n] * 60]), normals(items)) for n in range(9)])
    torch.testing.assert_close(plan.block(slice(2, 9), slice(4, 60)), expected[2:, 4:])
    found = plan.candidates(rows, ids)
    torch.testing.assert_close(found, expected[rows].gather(1, ids))
    formula = plans.PairsPlan(score.pairs, queries, items)
    torch.testing.assert_close(formula.block(slice(0, 9), slice(0, 60)), expected)
    torch.testing.assert_close(formula.candidates(rows, ids), expected[rows].gather(1, ids))


@pytest.mark.parametrize("name", [name for name in scores.names() if name not in KERNELS])
def test_work_is_what_torch_counts_in_a_block(name):
    """A whole block's products, for 480 x 480 pairs; norms that ride along are within 5 %."""
    mean = torch.nn.functional.normalize(torch.randn(480, DIM, generator=generator()))
    many = Gaussian(mean, torch.full((480, DIM), -3.0))
    score = scores.create(name)
    with FlopCounterMode(display=False) as counted:
        score(many, many)
    assert counted.get_total_flops() / 2 / 480**2 == pytest.approx(score.cost(many).work, rel=0.05)


def test_the_steps_of_the_density_kernel_are_those_in_its_source():
    """Operators between numbers of a group of four dimensions; a sum of products is one step."""
    source = ast.parse(textwrap.dedent(inspect.getsource(compiled._make_sums)))
    loops = [node for node in ast.walk(source) if isinstance(node, ast.For)]
    inner = min(
        (loop for loop in loops if any(isinstance(n, ast.Div) for n in ast.walk(loop))),
        key=lambda loop: len(ast.dump(loop)),
    )
    plain = [node for node in ast.walk(inner) if isinstance(node, (ast.BinOp, ast.AugAssign))]
    binary = [node for node in plain if isinstance(node, ast.BinOp)]
    fused_sums = [node for node in binary if isinstance(node.op, ast.Add) and isinstance(node.right, ast.BinOp)]
    assert len(plain) - len(fused_sums) == 4 * 6
    assert scores.create("elk").cost(Gaussian(torch.zeros(1, DIM), torch.zeros(1, 1))).work == 6 * DIM


@unless_annotations_are_enforced
def test_memory_of_each_kind():
    queries, items = sides()

    def memory(plan):
        return plan.bytes_per_pair, plan.bytes_per_item, plan.bytes_per_query, plan.bytes_per_candidate

    assert memory(plans.PairsPlan(None, queries, items)) == (384, 0, 0, 384)
    assert memory(scores.create("w2").plan(queries, items)) == (16, 8 * (24 + 24), 0, 384)
    assert memory(scores.create("csd_prob").plan(queries, items)) == (32, 8 * (12 + 24), 0, 384)
    plan = scores.create("average_l2", samples=3).plan(queries, Points(torch.zeros(4, 2, 6)))
    assert memory(plan) == (16 * 6, 24 * 12, 24 * 18, 0)
    assert (plan.numbers, plan.work, plan.lists) == (12, 36, False)


def plan_of(queries, items, **sizes):
    return SimpleNamespace(queries=range(queries), gallery=range(items), bytes_per_query=0, bytes_per_item=0, **sizes)


@unless_annotations_are_enforced
@pytest.mark.parametrize(
    ("limit", "whole", "steps"), [(1 << 20, False, [1024, 976]), (4000, False, [100] * 20), (4000, True, [2] * 1000)]
)
def test_blocks_of_queries_fit(limit, whole, steps):
    found = list(plans.query_blocks(plan_of(2000, 50, bytes_per_pair=10), limit, whole_rows=whole))
    assert [rows.stop - rows.start for rows in found] == steps
    assert [rows.start for rows in found] == [sum(steps[:n]) for n in range(len(steps))]


@unless_annotations_are_enforced
def test_blocks_of_items_fit_beside_the_queries():
    plan = plan_of(2000, 50, bytes_per_pair=10)
    plan.bytes_per_item = 100
    assert list(plans.item_blocks(plan, 10, 8000)) == [slice(0, 20), slice(20, 40), slice(40, 50)]
    assert len(list(plans.item_blocks(plan, 10, 1))) == 50


def test_strips_of_samples_change_nothing(monkeypatch):
    queries, items = sides(torch.float64, items=50)
    whole = scores.create("average_l2")(queries, items)
    monkeypatch.setattr(plans, "CACHE_BYTES", 3 * 9 * 16 * 49)  # three items at a time
    torch.testing.assert_close(scores.create("average_l2")(queries, items), whole)


def test_columns_are_filled_up_with_zeros():
    items = torch.ones(50, 3)
    found = plans.whole_columns(items)
    assert found.shape == (96, 3)
    assert torch.equal(found[:50], items)
    assert not found[50:].any()
    assert plans.whole_columns(found) is found


def test_single_points_and_normals():
    x = torch.randn(4, 1, 3, generator=generator())
    single = plans.single_points(Points(x))
    assert torch.equal(single.mean, x[:, 0])
    assert torch.equal(single.log_sigma, torch.zeros(4, 1))
    normal = plans.normal(Gaussian(x[:, 0], torch.full((4, 1), 0.5)))
    assert normal.mean.dtype == normal.log_sigma.dtype == torch.float64
    torch.testing.assert_close(normal.sigma, torch.full((4, 3), 0.5).double().exp())
    torch.testing.assert_close(normal.variance, torch.full((4, 3), 1.0).double().exp())
