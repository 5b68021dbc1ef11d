"""The COCO tables on a handmade COCO: what they ask is measured, by the paper's names."""

import json

import pytest

from pcme.errors import ConfigError
from pcme.reproduce import registry, reproduce
from pcme.reproduce.jobs import JobState, perform
from pcme.reproduce.planning import Request
from pcme.reproduce.setups import SETUPS
from pcme.reproduce.stamps import data_stamp

SMALL = (
    'image={"kind":"convnet","widths":[8,16]}', 'words={"dim":8}', "augment.size=16", "dim=8",
    'phases=[{"epochs":1,"learning_rate":0.001}]',
)  # fmt: skip


def test_the_5k_table_of_a_small_coco(coco, tmp_path):
    request = Request(SETUPS["coco"], True, 1, SMALL, tmp_path / "runs", coco, "")
    (table,) = registry.create("coco-5k").tables(SETUPS["coco"])
    row = next(row for row in table.rows if row.paper == "PCME")
    job = request.job(table, row, 0)
    perform(job)
    figures = JobState.read(job.folder).figures[job.measurements[0].key]
    assert (figures["images"], figures["captions"]) == (4, 20)
    values = {column.title: figures[column.metric] for column in table.columns}
    assert all(0 <= value <= 1 for value in values.values())
    assert {"i2t PMRP", "t2i R@10"} <= set(values)


@pytest.mark.parametrize("experiment", ["coco-5k", "pmrp"])
def test_plausible_matches_without_labels_are_refused_before_anything_is_trained(coco, tmp_path, experiment):
    (coco / "annotations" / "instances_val2014.json").unlink()
    options = {"data": "coco", "data_root": coco, "quick": True, "out": tmp_path / "out", "changes": SMALL}
    with pytest.raises(ConfigError, match=r"coco/test.*annotations/instances_val"):
        reproduce([experiment], launch=lambda job: pytest.fail("trained"), **options)


def test_other_labels_are_other_data(coco):
    recipe = SETUPS["coco"].recipe(SMALL)
    first = data_stamp(recipe, coco, ["test"])
    path = coco / "annotations" / "instances_val2014.json"
    instances = json.loads(path.read_text())
    instances["annotations"][-1]["category_id"] = 90
    instances["annotations"][-2]["category_id"] = 90
    path.write_text(json.dumps(instances))
    second = data_stamp(recipe, coco, ["test"])
    path.unlink()
    assert len({first, second, data_stamp(recipe, coco, ["test"])}) == 3


def test_fig6_of_coco_asks_within_folds_of_1k():
    tables = registry.create("fig6").tables(SETUPS["coco"])
    assert [table.columns[0].metric for table in tables] == ["i2t 1k bin 1", "t2i 1k bin 1"]
    assert all("5 folds of 1K" in table.title for table in tables)
    whole = registry.create("fig6").tables(SETUPS["cub"])
    assert [table.columns[0].metric for table in whole] == ["i2t bin 1", "t2i bin 1"]
