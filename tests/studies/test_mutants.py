"""Mutants: one fault each, in code that computes."""

from studies.mutants.mutate import mutants

SOURCE = '''"""A module: 1 + 2."""

from typing import Any

__all__ = ["half"]


def half(x: "Float[Any, \'3 4\']", limit: float = 7.0) -> int:
    """Half, or an error."""
    if x < limit and not x == 3:
        raise ValueError(f"{x + 1}")
    return -x / min(x, 2)
'''
CHANGES = {
    "7.0 -> 8.0", "negate the condition", "And -> Or", "Lt -> LtE", "drop Not", "Eq -> NotEq",
    "3 -> 4", "drop USub", "Div -> Mult", "min -> max", "2 -> 3",
}  # fmt: skip


def test_each_mutant_has_one_fault_and_no_text_is_touched(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    every = list(mutants(path, tmp_path))
    assert {mutant.change for mutant in every} == CHANGES
    assert len({mutant.source for mutant in every}) == len(every) == len(CHANGES)
    assert all("{x + 1}" in mutant.source and "3 4" in mutant.source for mutant in every)
