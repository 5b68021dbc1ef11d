"""A plugin of pytest: `-p tests.enforcing` executes every annotation of pcme, shapes included."""

from pathlib import Path

import jaxtyping
from beartype import BeartypeConf, beartype

HERE = Path(__file__).parent.parent / "src" / "pcme"
COMPILED = {"compiled", "topk"}
"""Modules of `kernels` that numba compiles; compiled functions cannot be wrapped."""

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float


def pytest_configure():
    """Only as a plugin: the collection of doctests imports this file, too."""
    modules = {path.stem for path in HERE.iterdir() if not path.name.startswith("_")} - {"kernels"}
    kernels = {f"kernels.{path.stem}" for path in (HERE / "kernels").glob("*.py")}
    names = [f"pcme.{name}" for name in sorted(modules | (kernels - {f"kernels.{c}" for c in COMPILED}))]
    jaxtyping.install_import_hook(names, "tests.enforcing.check")
