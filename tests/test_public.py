"""The public names: one table, a stub that agrees, nothing heavy before first use."""

import ast
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import pcme

STUB = Path(pcme.__file__).with_suffix(".pyi")


def test_the_public_names_are_few_sorted_and_listed():
    assert pcme.__all__ == sorted(set(pcme.__all__))
    assert len(pcme.__all__) <= 16
    assert set(pcme.__all__) <= set(dir(pcme))


def test_the_stub_names_the_same_objects():
    imports = [node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ImportFrom)]
    found = {}
    for node in imports:
        (alias,) = node.names
        assert alias.asname == alias.name  # the form that re-exports
        module = import_module(str(node.module))
        found[alias.name] = getattr(module, alias.name)
    assert found == {name: getattr(pcme, name) for name in pcme.__all__}


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'pcme' has no attribute 'Gausian'"):
        pcme.Gausian  # noqa: B018


def test_every_extra_installs_something():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert [extra for extra, packages in project["optional-dependencies"].items() if not packages] == []


def test_importing_the_package_imports_no_library():
    heavy = {"torch", "numpy", "scipy", "pandas", "pydantic", "typer"}
    code = f"import pcme, sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
