"""`python -m studies.mutants kernels scores --sample 100`: which faults do the tests notice?

Draw mutants of the named packages, run the package's tests on each of them in a forked process, and
write the survivors to studies/mutants/record.json. A survivor means that a test is missing, or that
the change makes no difference, such as another block size. Common tools are not used, because they
skip decorated functions, and so properties and registered classes.
"""

import argparse
import ast
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest
import scipy.stats  # noqa: F401
import torch

from studies.mutants.mutate import Mutant, mutants

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "pcme"
RECORD = Path(__file__).with_name("record.json")
TESTS = {
    "kernels": ("tests/kernels", "tests/scores"),
    "scores": ("tests/scores", "tests/kernels"),
    "retrieval": ("tests/retrieval",),
    "methods": ("tests/methods",),
}
"""{package: its tests}. A run stops at the first failure."""
TIMEOUT = 600
"""Seconds; a mutant that runs longer counts as noticed."""


class _Mutated(MetaPathFinder, Loader):
    """Imports one module of the package from a mutant's source."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        parts = Path(mutant.path).with_suffix("").parts
        self.name = ".".join(("pcme", *(parts[:-1] if parts[-1] == "__init__" else parts)))
        self.is_package = parts[-1] == "__init__"

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name != self.name:
            return None
        origin = str(SOURCE / self.mutant.path)
        spec = spec_from_loader(name, self, origin=origin, is_package=self.is_package)
        if spec is not None:
            spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.mutant.source, str(SOURCE / self.mutant.path), "exec"), module.__dict__)


def tests_of(mutant: Mutant) -> list[str]:
    """The test file of the module first, where there is one, then those of its package."""
    path = Path(mutant.path)
    mirror = Path("tests", path.parent, f"test_{path.name}")
    first = [mirror.as_posix()] if (ROOT / mirror).exists() else []
    return first + list(TESTS[path.parts[0]])


def survives(mutant: Mutant) -> bool:
    """Whether all tests pass when the mutant replaces its module."""
    with tempfile.TemporaryDirectory() as cache:
        child = os.fork()
        if not child:
            _run(mutant, cache)
        _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def _run(mutant: Mutant, cache: str) -> None:
    """Run the tests in this process and leave it; never returns."""
    signal.alarm(TIMEOUT)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1), os.dup2(silence, 2)
    code = 1
    try:
        # machine code is cached by the file's name and time: a mutant needs a cache of its own
        os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = cache
        sys.meta_path.insert(0, _Mutated(mutant))
        options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow"]
        code = int(pytest.main([*options, *tests_of(mutant)]))
    finally:
        os._exit(code)


def unchanged(mutant: Mutant) -> Mutant:
    """The same module without a fault, parsed and written again like its mutants."""
    source = ast.unparse(ast.parse((SOURCE / mutant.path).read_text(encoding="utf-8")))
    return replace(mutant, change="none", source=source)


def draw(package: str, sample: int, seed: int) -> list[Mutant]:
    """Mutants of a package, drawn at random."""
    every = [m for path in sorted((SOURCE / package).rglob("*.py")) for m in mutants(path, SOURCE)]
    order = np.random.default_rng(seed).permutation(len(every))[:sample]
    return [every[number] for number in sorted(order.tolist())]


def study(package: str, sample: int, seed: int) -> dict[str, object]:
    """Test the drawn mutants of a package; return how many there are and which survived."""
    drawn = draw(package, sample, seed)
    if not survives(unchanged(drawn[0])):
        sys.exit(f"{package}: its tests fail without a fault. Fix them first.")
    survivors = []
    for number, mutant in enumerate(drawn, 1):
        start = time.monotonic()
        survived = survives(mutant)
        if survived:
            survivors.append({"file": mutant.path, "line": mutant.line, "change": mutant.change})
        outcome = f"{'SURVIVED' if survived else 'noticed'} in {time.monotonic() - start:.1f} s"
        fault = f"{mutant.path}:{mutant.line} {mutant.change}"
        print(f"{package} {number}/{len(drawn)} {outcome}: {fault}", flush=True)
    return {"mutants": len(drawn), "seed": seed, "survivors": survivors}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m studies.mutants")
    parser.add_argument("packages", nargs="*", default=list(TESTS))
    parser.add_argument("--sample", type=int, default=100, help="mutants per package")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    for package in options.packages:
        record = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
        record[package] = study(package, options.sample, options.seed)
        RECORD.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
