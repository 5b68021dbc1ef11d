"""A plugin of pytest: `-p tests.enforcing` executes every annotation of pcme, shapes included (`make annotations`)."""

import typing
from pathlib import Path

import jaxtyping
import numpy as np
import typer
from beartype import BeartypeConf, FrozenDict, beartype

HERE = Path(__file__).parent.parent / "src" / "pcme"
COMPILED = {"compiled", "topk"}
"""Modules of `kernels` that numba compiles; compiled functions cannot be wrapped."""
WRONG_ON_PURPOSE = ("refused", "wrong_input")
"""Words in the names of tests that give a wrong type on purpose; others carry `unless_annotations_are_enforced`."""
REAL = float | int | np.floating
OVERRIDES = FrozenDict(
    {int: int | np.integer, float: REAL, complex: complex | REAL, typer.Context: typer.Context.__base__}
)
"""A number of numpy is as good as one of Python, an int is a float; typer hands out the plain context of click."""

check = beartype(conf=BeartypeConf(hint_overrides=OVERRIDES))


def pytest_load_initial_conftests():
    """Before any conftest imports pcme, and only as a plugin: the collection of doctests imports this file, too."""
    typing.Protocol._is_runtime_protocol = True  # beartype refuses protocols that isinstance refuses
    modules = {path.stem for path in HERE.iterdir() if not path.name.startswith("_")} - {"kernels"}
    kernels = {f"kernels.{path.stem}" for path in (HERE / "kernels").glob("*.py")}
    names = [f"pcme.{name}" for name in sorted(modules | (kernels - {f"kernels.{c}" for c in COMPILED}))]
    jaxtyping.install_import_hook(names, "tests.enforcing.check")


def pytest_collection_modifyitems(config, items):
    """Leave out what beartype would refuse before the code under test can."""
    left_out = [item for item in items if any(word in item.nodeid for word in WRONG_ON_PURPOSE)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
