"""pcme compare, as people and programs call it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from pcme.cli import app
from pcme.cli.compare import _cells
from pcme.evaluation import Direction, Evaluation, compare_evaluations
from tests.evaluation.models import untrained


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("compare")
    return [untrained(base / f"run{seed}", seed=seed) for seed in range(3)]


def run(*args, width=80):
    plain = CliRunner(env={"FORCE_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": str(width)})
    return plain.invoke(app, ["compare", *map(str, args)])


def test_people_get_a_table_that_is_not_cut(folders):
    done = run(*folders)
    assert done.exit_code == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1][-2:] == ["p", "(Holm)"]
    assert [line[0] for line in lines[3:6]] == ["run0", "run1", "run2"]
    for line in (*lines[4:6], *lines[8:10]):
        assert len(line) == 6
        assert 0 < float(line[-1]) <= 1
        assert float(line[3].strip("[,")) <= float(line[2]) <= float(line[4].strip("]"))
    assert "nothing of other trainings" in " ".join(done.stdout.split())


def test_programs_get_everything(folders):
    record = json.loads(run(*folders[:2], "--metric", "recall@5", "--json").stdout)
    assert (record["metric"], record["dataset"]) == ("recall@5", "aviary/test")
    assert [each["run"] for each in record["runs"]] == [str(folder) for folder in folders[:2]]
    first, second = record["runs"]
    for each in record["differences"]:
        way = each["direction"]
        assert each["difference"] == pytest.approx(second[way] - first[way])
        assert each["interval"][0] <= each["interval"][1]
        assert each["p"] == each["p_holm"]


def test_a_single_class_has_no_interval():
    one = Direction({"r_precision": np.ones(4)}, tuple("abcd"), 4, np.zeros(4, np.int64), np.full(4, -1))
    result = Evaluation("cub/test", "csd", {}, one, one, "same")
    (difference, _) = compare_evaluations({"a": result, "b": result}).differences
    assert _cells(1.0, difference, "r_precision") == ("100.00", "+0.00", "–", "1.0000")


def test_a_damaged_file_is_said(folders, tmp_path):
    (tmp_path / "damaged.npz").write_bytes(b"PK")
    done = run(folders[0], tmp_path / "damaged.npz")
    assert (done.exit_code, "not a saved evaluation" in " ".join(done.stderr.split())) == (
        2, True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("args", "message"), [(["--metric", "recal@1"], 'Did you mean "recall@1"'), (["--split", "x"], 'no split "x"')]
)
def test_mistakes_are_explained(folders, args, message):
    done = run(*folders[:2], *args)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())
