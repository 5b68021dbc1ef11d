"""A plugin's score, method, backbones, dataset and analysis do all that built-in ones do.

The package is installed from a wheel, as a user would install it; the processes below find it through its entry point.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "flock"
KINDS = {
    "scores": ["flock-manhattan"],
    "methods": ["flock-logistic"],
    "backbones": ["flock-grid", "flock-bag"],
    "datasets": ["flock-squares"],
    "analyses": ["flock-brightness"],
}


def wheel(folder):
    """The package as a wheel: a zip file of its modules and what pip needs to know of them."""
    about = "pcme_flock-1.0.dist-info"
    contents = {f"pcme_flock/{path.name}": path.read_text() for path in SOURCE.glob("*.py")}
    contents |= {
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: pcme-flock\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/entry_points.txt": "[pcme.plugins]\nflock = pcme_flock\n",
    }
    contents[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in contents)
    path = folder / "pcme_flock-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in contents.items():
            archive.writestr(name, text)
    return path


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with the installed package below "site"."""
    folder = tmp_path_factory.mktemp("plugins")
    options = ["--no-index", "--no-deps", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, "--target", folder / "site", wheel(folder)], check=True
    )
    return folder


DRIVER = """
import contextlib, io, json, sys
from pcme.cli import app

answers = []
for line in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        app([*line, "--json"], standalone_mode=False)
    answers.append(json.loads(out.getvalue()))
print(json.dumps(answers))
"""


def pcme(work, *lines):
    """What command lines print as JSON, in one process where the package is installed."""
    paths = os.pathsep.join([str(work / "site"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps([line.split() for line in lines]),
        cwd=work, env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def answers(work):
    """What is known of a run that was trained with all that the plugin brings."""
    lines = {
        "listed": "list",
        "trained": "train flock --out run",
        "own": "evaluate run",
        "every": "evaluate run --scores all --out results",
        "analysed": "analyze run flock-brightness bins",
    }
    return dict(zip(lines, pcme(work, *lines.values()), strict=True))


def test_everything_is_listed_with_its_origin(answers):
    for kind, names in KINDS.items():
        listed = {row["name"]: row for row in answers["listed"][kind]}
        for name in names:
            assert (listed[name]["origin"], bool(listed[name]["summary"])) == ("pcme_flock", True)
    (recipe,) = [row for row in answers["listed"]["recipes"] if row["origin"] == "plugin"]
    assert (recipe["name"], recipe["method"]) == ("flock", "flock-logistic")


def test_a_run_is_trained_and_evaluated_by_every_score(answers):
    own, every = answers["own"], {record["score"]: record for record in answers["every"]}
    assert own["score"] == "flock-manhattan"
    assert own["t2i"]["r_precision"] > 0.9  # three colours can be told apart
    assert every["flock-manhattan"]["t2i"] == own["t2i"]
    assert "overlap" in every


def test_an_analysis_is_computed_and_drawn(work, answers):
    record, bins = answers["analysed"]["analyses"]
    assert [number["name"] for number in record["numbers"]] == ["brightness", "spread"]
    assert {Path(file).suffix for file in record["files"]} == {".json", ".svg", ".png"}
    assert all((work / file).stat().st_size for file in record["files"])
    assert bins["numbers"]


def test_an_index_is_filled_searched_and_described_by_another_process(work, answers):
    filling = ("index create squares --model run", "index add squares flock-squares --split test")
    *_, hits = pcme(work, *filling, "search squares red --k 4")
    assert sorted(hit["id"] for hit in hits["hits"]) == sorted(f"test-{n}" for n in (0, 3, 6, 9))
    assert all(hit["match_probability"] > 0.1 for hit in hits["hits"])
    described, again, _ = pcme(work, "index describe squares", "search squares red --k 4", "index verify squares")
    assert "flock-manhattan" in json.dumps(described)
    assert again["hits"] == hits["hits"]
