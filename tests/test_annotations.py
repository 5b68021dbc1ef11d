"""The plugin that executes annotations notices a wrong one; `make annotations` runs the whole suite under it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_a_wrong_type_is_noticed(tmp_path):
    wrong = tmp_path / "test_wrong.py"
    wrong.write_text("from pcme.nn.heads import HeadOptions\ndef test_it():\n    HeadOptions(dim='8')\n")
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.enforcing", "--rootdir", str(ROOT)]
    command = [sys.executable, "-m", "pytest", *options, "-c", str(ROOT / "pyproject.toml"), str(wrong)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "TypeCheckError" in done.stdout
