"""Annotations are true: quick tests of every layer once more, with shapes and types executed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
FILES = (
    "test_embedding", "retrieval/test_matches", "retrieval/test_ranking", "retrieval/test_metrics",
    "studies/real/test_neighbours", "methods/test_likelihood", "scores/test_distances",
    "nn/test_attention", "nn/test_heads",
    "nn/test_towers", "nn/images/test_convnet", "nn/captions/test_gru", "methods/test_vse",
    "methods/test_pvse", "methods/test_infonce", "methods/test_triplets", "methods/test_pcme",
    "methods/test_pcmepp", "methods/test_mixing", "methods/test_regularisers", "data/loading/test_batches",
)  # fmt: skip
WRONG_ON_PURPOSE = "refused or wrong_input"
SLOW = "gradcheck or warm_start"


def run(*arguments):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p"]
    return subprocess.run([*command, "tests.enforcing", *arguments], cwd=ROOT, capture_output=True, text=True)


def test_they_hold_where_they_are_executed():
    files = [f"tests/{name}.py" for name in FILES]
    done = run("-k", f"not ({WRONG_ON_PURPOSE} or {SLOW})", *files)
    assert done.returncode == 0, done.stdout[-4000:]


def test_what_is_wrong_is_noticed(tmp_path):
    wrong = tmp_path / "test_wrong.py"
    wrong.write_text("from pcme.nn.heads import HeadOptions\ndef test_it():\n    HeadOptions(dim='8')\n")
    done = run("--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml"), str(wrong))
    assert done.returncode == 1
    assert "TypeCheckError" in done.stdout
