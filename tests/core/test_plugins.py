"""Plugins: found by name, path or entry point; a broken one is named, every time."""

import os
import subprocess
import sys

import pytest

SCORE = '''
from dataclasses import dataclass
from pcme.scores.base import Score, registry

@registry.register("{name}")
@dataclass(frozen=True)
class Scored(Score):
    """A score from outside."""

    def pairs(self, queries, gallery):
        return -(queries.mean - gallery.mean).abs().sum(-1)
'''


def pcme(*args, path=(), **variables):
    """Run the command line in a process of its own, with `path` before the others."""
    paths = os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "300", **variables}
    return subprocess.run(
        [sys.executable, "-m", "pcme", *map(str, args)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_file_and_a_module_are_loaded_and_listed_with_their_origin(tmp_path):
    loose = tmp_path / "loose.py"
    loose.write_text(SCORE.format(name="from_a_file"))
    (tmp_path / "importable.py").write_text(SCORE.format(name="from_a_module"))
    done = pcme("--plugin", loose, "--plugin", "importable", "list", "scores", path=[tmp_path])
    lines = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert str(loose) in lines["from_a_file"], done.stderr
    assert "importable" in lines["from_a_module"]
    assert "built-in" in lines["mean"]
    by_variable = pcme("list", "scores", PCME_PLUGINS=str(loose))
    assert "from_a_file" in by_variable.stdout


@pytest.mark.parametrize(
    ("code", "fault"),
    [("import nothing_like_it", "nothing_like_it"), (SCORE.format(name="mean"), "already registered")],
)
def test_an_installed_plugin_that_fails_names_its_distribution(tmp_path, code, fault):
    about = tmp_path / "owner-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: owner\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[pcme.plugins]\nsomething = broken\n")
    (tmp_path / "broken.py").write_text(code)
    done = pcme("list", "scores", path=[tmp_path])
    assert done.returncode == 2
    assert all(word in done.stderr for word in ("something", "owner", fault))


@pytest.mark.parametrize(("name", "word"), [("gone.py", "no such file"), ("no_module_x", "import")])
def test_a_plugin_that_is_not_there_is_refused(name, word):
    done = pcme("--plugin", name, "list", "scores")
    assert (done.returncode, word in done.stderr) == (2, True)


def test_a_failure_is_told_at_every_lookup(tmp_path):
    (tmp_path / "half.py").write_text("raise RuntimeError('broken')")
    code = """
from pcme import methods, scores
from pcme.errors import ConfigError
for names in (scores.names, scores.names, methods.names):
    try:
        names()
    except ConfigError as error:
        print("half" in str(error) and "broken" in str(error))
"""
    environment = {**os.environ, "PCME_PLUGINS": str(tmp_path / "half.py")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 3
