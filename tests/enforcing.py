"""A plugin of pytest: `-p tests.enforcing` executes every annotation of pcme, shapes included."""

from pathlib import Path

import jaxtyping
from beartype import BeartypeConf, beartype

HERE = Path(__file__).parent.parent / "src" / "pcme"
COMPILED = {"fused"}
"""What numba compiles cannot be wrapped."""

check = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float
modules = {path.stem for path in HERE.iterdir() if not path.name.startswith("_")} - COMPILED
jaxtyping.install_import_hook([f"pcme.{name}" for name in sorted(modules)], "tests.enforcing.check")
