"""The exception tree: complete, flat, and drawn as it is."""

import inspect

import pytest

from pcme import errors

LEAVES = ["ConfigError", "DataError", "FormatError", "ShapeError"]


def test_the_module_holds_the_tree_and_nothing_else_and_its_root_is_a_plain_exception():
    classes = {name for name, _ in inspect.getmembers(errors, inspect.isclass)}
    assert classes == {*LEAVES, "PcmeError"} == set(errors.__all__)
    assert errors.PcmeError.__bases__ == (Exception,)


@pytest.mark.parametrize("name", LEAVES)
def test_each_leaf_hangs_on_the_root_is_drawn_and_shows_its_message(name):
    assert getattr(errors, name).__bases__ == (errors.PcmeError,)
    assert f"── {name} " in (errors.__doc__ or "")
    with pytest.raises(errors.PcmeError, match=r"^wrong\. Given: 3\. Do this\.$"):
        raise getattr(errors, name)("wrong. Given: 3. Do this.")
