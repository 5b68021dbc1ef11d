"""The rules of the code base that no linter knows, read from the source without running it.

Each rule is a function from one module's source to the violations in it. It is run over every
module of the package, and over snippets that break it: a rule that sees nothing is noticed.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path

import jaxtyping
import pytest

ROOT = Path(__file__).parents[1] / "src" / "pcme"

# Imports point down, without exceptions: a module imports what stands in an earlier row.
# A package stands for all of its modules; inside a package no two modules import each other.
LAYERS = (
    {"errors"},
    {"core"},
    {"embedding", "retrieval", "plots"},
    {"kernels"},
    {"scores", "data"},
    {"nn"},
    {"methods"},
    {"recipes"},
    {"model"},
    {"evaluation"},
    {"uncertainty", "training"},
    {"index", "analysis"},
    {"reproduce"},
    {"showcase"},
    {"serve"},
    {"__init__"},
    {"cli"},
    {"__main__"},
)

# The index reads top to bottom: inside it a module imports from its own step or an earlier one.
INDEX_STEPS = (
    {"settings", "rows", "hits"},
    {"lance", "store", "ann"},
    {"encoder", "items", "arrow_files", "vector_files", "queries", "resolve"},
    {"resident", "exact", "approximate", "interpret"},
    {"writer", "tuning", "export"},
    {"finder", "health"},
    {"search_index", ""},
)

# Not needed to compute, not safe, or not importable beside the CPU build of torch.
# transformers and timm are asked for by name, when a backbone needs them.
FORBIDDEN = {"matplotlib", "open_clip", "pickle", "timm", "torchvision", "transformers"}

# Except here, where it is the point: an unpickler that makes nothing but plain containers; the
# one door to what draws.
PERMITTED = {("model.authors.vocabulary", "pickle"), ("plots.style", "matplotlib")}

# Draw from a hidden global stream unless they are given a generator.
SAMPLERS = "bernoulli multinomial normal poisson rand rand_like randint randint_like randn randn_like randperm"
TORCH_SAMPLERS = {f"torch.{name}" for name in SAMPLERS.split()}
TENSOR_SAMPLERS = {
    "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "multinomial", "normal_",
    "random_", "uniform_",
}  # fmt: skip
GLOBAL_SEEDS = {"manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state"}
NUMPY_STREAMS = {"Generator", "PCG64", "PCG64DXSM", "Philox", "SeedSequence", "default_rng"}


def modules() -> dict[str, str]:
    """Return {name below the package: source}; a package's __init__ goes by the package's name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = path.read_text(encoding="utf-8")
    return found


MODULES = modules()


def imported(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, absolute dotted name) of everything imported, at any depth."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def own_module(dotted: str) -> str | None:
    """Return which of our modules a name belongs to: "embedding" for "pcme.embedding.Gaussian"."""
    package, *parts = dotted.split(".")
    if package != "pcme":
        return None
    while parts and ".".join(parts) not in MODULES:
        parts.pop()
    return ".".join(parts) or "__init__"


def layer(module: str) -> int | None:
    top = module.partition(".")[0]
    return next((number for number, names in enumerate(LAYERS) if top in names), None)


SHAPED = {name for name in dir(jaxtyping) if name[0].isupper()}
COMPILED = {"kernels.compiled", "kernels.topk"}


def unlisted(name: str, source: str) -> Iterator[str]:
    if layer(name) is None:
        yield f"{name} is in no layer: add it to LAYERS in tests/test_architecture.py"


def upward_imports(name: str, source: str) -> Iterator[str]:
    for line, dotted in imported(source):
        target = own_module(dotted)
        if dotted.startswith("."):
            yield f"{name}:{line} imports {dotted}: write it from pcme on"
        elif target is None or target.partition(".")[0] == name.partition(".")[0]:
            continue  # a foreign library, or the same package
        elif (layer(target) or 0) >= (layer(name) or 0):
            yield f"{name}:{line} imports {target}, which is not below it"


def index_steps(name: str, source: str) -> Iterator[str]:
    for line, dotted in imported(source) if name.partition(".")[0] == "index" else ():
        target = own_module(dotted) or ""
        steps = [
            next((n for n, names in enumerate(INDEX_STEPS) if one.partition(".")[2] in names), None)
            for one in (name, target)
        ]
        if target.partition(".")[0] == "index" and (None in steps or steps[1] > steps[0]):
            yield f"{name}:{line} imports {target}, which is in no step or in a later one"


def package_cycles(sources: dict[str, str]) -> list[str]:
    """Modules of one package that import each other, directly or not."""
    edges = {
        name: {
            target
            for _, dotted in imported(source)
            if (target := own_module(dotted)) != name
            and target is not None
            and target.partition(".")[0] == name.partition(".")[0]
        }
        for name, source in sources.items()
    }
    try:
        tuple(TopologicalSorter(edges).static_order())
    except CycleError as error:
        return [" -> ".join(error.args[1])]
    return []


def forbidden_imports(name: str, source: str) -> Iterator[str]:
    for line, dotted in imported(source):
        package = dotted.partition(".")[0]
        if package in FORBIDDEN and (name, package) not in PERMITTED:
            yield f"{name}:{line} imports {dotted}"


def third_party_at_the_bottom(name: str, source: str) -> Iterator[str]:
    if layer(name) not in (0, 1) or name == "core.random":
        return
    for line, dotted in imported(source):
        if dotted.partition(".")[0] not in {*sys.stdlib_module_names, "pcme"}:
            yield f"{name}:{line} imports {dotted}: the bottom uses the standard library only"


def global_randomness(name: str, source: str) -> Iterator[str]:
    for line, dotted in imported(source):
        if dotted.partition(".")[0] == "random":
            yield f"{name}:{line} imports random: take a torch.Generator"
    meaning = _aliases(source)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and (fault := _draws_globally(node, meaning)):
            yield f"{name}:{node.lineno} {fault}"


def _aliases(source: str) -> dict[str, str]:
    """Return {local name: absolute name} of the imports: {"np": "numpy"}."""
    nodes = list(ast.walk(ast.parse(source)))
    plain = [a for node in nodes if isinstance(node, ast.Import) for a in node.names]
    return {a.asname: a.name for a in plain if a.asname} | {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def _dotted(node: ast.expr, meaning: dict[str, str]) -> str:
    """Return "numpy.random.rand" for `np.random.rand`, "?.normal_" for `f(x).normal_`."""
    if isinstance(node, ast.Name):
        return meaning.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, meaning)}.{node.attr}"
    return "?"


def _draws_globally(call: ast.Call, meaning: dict[str, str]) -> str | None:
    called = _dotted(call.func, meaning)
    root, last = called.partition(".")[0], called.rpartition(".")[2]
    with_generator = any(keyword.arg == "generator" for keyword in call.keywords)
    if called.startswith("numpy.random."):
        if last not in NUMPY_STREAMS:
            return f"calls {called}: take a numpy Generator"
        if last == "default_rng" and not (call.args or call.keywords):
            return "calls default_rng without a seed"
    if root == "torch" and last in GLOBAL_SEEDS:
        return f"calls {called}: seed a torch.Generator of your own"
    if last == "rsample":
        return f"calls {called}: it draws from the global stream"
    if not with_generator and (
        called in TORCH_SAMPLERS or ("." in called and root != "torch" and last in TENSOR_SAMPLERS)
    ):
        return f"calls {called} without generator="
    return None


RULES = (unlisted, upward_imports, index_steps, forbidden_imports, third_party_at_the_bottom, global_randomness)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule):
    violations = [fault for name, source in MODULES.items() for fault in rule(name, source)]
    assert not violations, "\n".join(violations)


def test_no_two_modules_of_a_package_import_each_other_and_a_cycle_is_seen():
    assert package_cycles(MODULES) == []
    cycle = {"scores.base": "from pcme.scores import plans", "scores.plans": "from pcme.scores.base import Score"}
    assert package_cycles(cycle) != []


def test_the_table_names_only_modules_that_exist():
    tops = {name.partition(".")[0] for name in MODULES}
    assert set().union(*LAYERS) == tops
    assert len(tops - {"__init__", "__main__"}) <= 21


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (unlisted, "helpers", ""),
        (unlisted, "new.module", ""),
        (upward_imports, "embedding", "from pcme import scores"),
        (upward_imports, "embedding", "from pcme import Gaussian"),
        (upward_imports, "embedding", "from pcme.retrieval.matches import Matches"),
        (upward_imports, "embedding", "from . import errors"),
        (upward_imports, "errors", "def f():\n    import pcme.core.registry"),
        (upward_imports, "retrieval.ranking", "from pcme.scores import base"),
        (upward_imports, "scores.one", "from pcme.data.dataset import Dataset"),
        (upward_imports, "scores", "from pcme.cli import app"),
        (index_steps, "index.store", "from pcme.index.queries import Query"),
        (index_steps, "index.exact", "from pcme.index import SearchIndex"),
        (index_steps, "index.novelty", "from pcme.index.rows import Rows"),
        (forbidden_imports, "showcase.demo", "def f():\n    from matplotlib import pyplot"),
        (forbidden_imports, "embedding", "import pickle"),
        (third_party_at_the_bottom, "core.registry", "import numpy"),
        (third_party_at_the_bottom, "errors", "from torch import Tensor"),
        (global_randomness, "m", "import random"),
        (global_randomness, "m", "from random import shuffle"),
        (global_randomness, "m", "import torch\ntorch.manual_seed(0)"),
        (global_randomness, "m", "from torch import manual_seed\nmanual_seed(0)"),
        (global_randomness, "m", "import torch\ntorch.randn(3)"),
        (global_randomness, "m", "import torch as t\nt.randn(3)"),
        (global_randomness, "m", "from torch import randperm as order\norder(3)"),
        (global_randomness, "m", "import torch\ntorch.empty(3).normal_()"),
        (global_randomness, "m", "x.uniform_(0, 1)"),
        (global_randomness, "m", "normal.rsample()"),
        (global_randomness, "m", "import numpy as np\nnp.random.rand(3)"),
        (global_randomness, "m", "from numpy.random import normal\nnormal()"),
        (global_randomness, "m", "from numpy import random as r\nr.normal()"),
        (global_randomness, "m", "import numpy as np\nnp.random.default_rng()"),
    ],
)
def test_the_rule_sees_a_violation(rule, name, source):
    assert len(list(rule(name, source))) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("embedding", "from pcme.errors import ShapeError"),
        ("core.registry", "from pcme.errors import ConfigError"),
        ("scores", "from pcme.scores import base\nfrom pcme.embedding import Gaussian"),
        ("scores.one", "from pcme.scores.base import Score\nfrom pcme.retrieval.ranking import Ranking"),
        ("index.finder", "from pcme.index.store import Store\nfrom pcme.index import health"),
        ("cli", "def f():\n    from pcme import scores\n    from pcme.showcase.demo import main"),
        ("data.one", "import numpy as np\nnp.random.default_rng(0).normal()"),
        ("retrieval.metrics", "import torch\ng = torch.Generator().manual_seed(0)\ng.manual_seed(1)"),
        ("data.one", "import torch\ntorch.randn(3, generator=g)\nx.normal_(generator=g)"),
        ("data.one", "gaussian.sample(7, g)\nnormal(3)\nrandom(3)"),
    ],
)
def test_no_rule_sees_a_violation_where_there_is_none(name, source):
    assert [fault for rule in RULES for fault in rule(name, source)] == []


@pytest.mark.parametrize("name", [name for name, source in MODULES.items() if "__all__" in source])
def test_every_name_a_module_offers_resolves(name):
    module = import_module("pcme" if name == "__init__" else f"pcme.{name}")
    assert [offer for offer in module.__all__ if not hasattr(module, offer)] == []


def shaped_and_bare(source: str) -> tuple[int, int]:
    """How many annotations of tensors and arrays have a shape, and how many have none."""
    counts = [0, 0]

    def visit(node: ast.AST, shaped: bool) -> None:
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node).split(".")[-1] in ("Tensor", "ndarray"):
            counts[not shaped] += 1
        inside = isinstance(node, ast.Subscript) and ast.unparse(node.value) in SHAPED
        for child in ast.iter_child_nodes(node):
            visit(child, shaped or inside)

    for node in ast.walk(ast.parse(source)):
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if annotation is not None:
                visit(annotation, shaped=False)
    return counts[0], counts[1]


def test_tensors_and_arrays_are_annotated_with_their_shapes():
    counts = [shaped_and_bare(source) for name, source in MODULES.items() if name not in COMPILED]
    shaped, bare = map(sum, zip(*counts, strict=True))
    assert shaped / (shaped + bare) >= 0.95
    source = 'def f(x: Float[Tensor, "n"], y: np.ndarray | None) -> tuple[Tensor, Int[np.ndarray, "n"]]: ...'
    assert shaped_and_bare(source) == (2, 2)
