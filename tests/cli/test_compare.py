"""pcme compare, as people and programs call it."""

import numpy as np
import pytest

from pcme.cli.compare import _cells
from pcme.evaluation import Direction, Evaluation, compare_evaluations
from tests.evaluation.models import untrained
from tests.helpers import printed, record
from tests.models import copied


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("compare")
    return [untrained(base / f"run{seed}", seed=seed) for seed in range(3)]


def test_people_get_a_table_that_is_not_cut_and_tells_folders_of_one_name_apart(folders, tmp_path):
    text = printed("compare", *folders, width=80)
    lines = [line.split() for line in text.splitlines()]
    assert lines[1][-2:] == ["p", "(Holm)"]
    assert [line[0] for line in lines[3:6]] == ["run0", "run1", "run2"]
    for line in (*lines[4:6], *lines[8:10]):
        assert len(line) == 6
        assert 0 < float(line[-1]) <= 1
        assert float(line[3].strip("[,")) <= float(line[2]) <= float(line[4].strip("]"))
    assert "nothing of other trainings" in " ".join(text.split())
    other = copied(folders[1], tmp_path / "run0")
    assert printed("compare", folders[0], other, width=300).count(str(other)) == 2


def test_programs_get_everything(folders):
    found = record("compare", *folders[:2], "--metric", "recall@5")
    assert (found["metric"], found["dataset"]) == ("recall@5", "aviary/test")
    assert [each["run"] for each in found["runs"]] == [str(folder) for folder in folders[:2]]
    first, second = found["runs"]
    for each in found["differences"]:
        direction = each["direction"]
        assert each["difference"] == pytest.approx(second[direction] - first[direction])
        assert each["interval"][0] <= each["interval"][1]
        assert each["p"] == each["p_holm"]


def test_a_single_class_has_no_interval():
    one = Direction({"r_precision": np.ones(4)}, tuple("abcd"), 4, np.zeros(4, np.int64), np.full(4, -1))
    result = Evaluation("cub/test", "csd", {}, one, one, "same")
    (difference, _) = compare_evaluations({"a": result, "b": result}).differences
    assert _cells(1.0, difference, "r_precision") == ("100.00", "+0.00", "–", "1.0000")
