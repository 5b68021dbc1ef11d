"""One small reproduction that several test files look at, and a small COCO."""

import json
import shutil

import pytest

from pcme.reproduce import reproduce
from pcme.reproduce.jobs import perform
from tests.data.formats import official
from tests.data.formats.test_coco import karpathy_entry
from tests.helpers import one_thread, picture
from tests.reproduce.tiny import SETUP

SPLITS = ["train"] * 8 + ["val"] * 3 + ["test"] * 4


@pytest.fixture(scope="package")
def dof(tmp_path_factory):
    """(folder, result) of the experiment dof: three runs, made in this process."""
    out = tmp_path_factory.mktemp("reproduce")
    with one_thread():
        (result,) = reproduce(["dof"], data=SETUP, quick=True, out=out, jobs=1, launch=perform)
    return out, result


@pytest.fixture
def again(dof, tmp_path):
    """A function that reproduces one experiment in a folder that has the runs of dof already."""
    shutil.copytree(dof[0] / "runs", tmp_path / "runs")

    def make(name):
        with one_thread():
            (result,) = reproduce([name], data=SETUP, quick=True, out=tmp_path, jobs=1, launch=perform)
        return tmp_path / "results", result

    return make


def write_instances(root, seen):
    """The instances file of val2014: {image: the category of each object}."""
    objects = [(image, kind) for image, kinds in seen.items() for kind in kinds]
    (root / "annotations").mkdir(exist_ok=True)
    (root / "annotations" / "instances_val2014.json").write_text(json.dumps(official.instances(list(seen), objects)))


def write_coco(root, splits):
    """Karpathy's file and small pictures: image n, from 1 on, is in splits[n - 1]."""
    entries = [karpathy_entry(number, split) for number, split in enumerate(splits, start=1)]
    (root / "dataset_coco.json").write_text(json.dumps({"images": entries, "dataset": "coco"}))
    for entry in entries:
        picture(root / entry["filepath"] / entry["filename"])


@pytest.fixture
def coco(tmp_path):
    write_coco(tmp_path, SPLITS)
    write_instances(tmp_path, {n: [(1, 17, 90)[n % 3]] for n in range(1, len(SPLITS) + 1)})
    return tmp_path
