"""ECCV Caption and CxC: our values against the package's figures and against a loop."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pcme import scores
from pcme.data.dataset import CaptionDataset
from pcme.data.sources import Files
from pcme.evaluation import eccv, evaluate_score, protocol, readings
from pcme.evaluation.ground_truth import Relation
from pcme.evaluation.judge import OWN, block_metrics
from pcme.retrieval.ranking import Ranking
from tests.evaluation.splits import COCO, embeddings, toy

FIGURES = ("coco_5k_recalls", "cxc_recalls", "eccv_r1", "eccv_rprecision", "eccv_map_at_r")
PAIRS = {
    "eccv_map_at_r": "eccv map@r", "eccv_rprecision": "eccv r_precision", "eccv_r1": "eccv recall@1",
    "coco_5k_r1": "recall@1", "coco_5k_r10": "recall@10", "cxc_r1": "cxc recall@1", "cxc_r5": "cxc recall@5",
}  # fmt: skip
"""{the package's name: ours}."""


@pytest.fixture(scope="module")
def judge():
    return eccv.load_package()


@pytest.fixture(scope="module")
def coco(judge):
    """The test split with the ids that the package knows, in file order."""
    captions = judge.coco_ids.tolist()
    owners = [judge.coco_gts["t2i"][ident][0] for ident in captions]
    images = list(dict.fromkeys(owners))
    row = {ident: i for i, ident in enumerate(images)}
    files = Files(Path(), [f"{ident}.jpg" for ident in images])
    split = CaptionDataset.by_image("coco", "test", files, [""] * len(captions), [row[owner] for owner in owners])
    ids = {"caption_ids": tuple(map(str, captions)), "metadata": [{"coco_id": ident} for ident in images]}
    return replace(split, readings=("eccv", "cxc"), **ids)


def test_the_judgements_are_as_many_as_published(coco):
    found = protocol(coco)
    assert found.notes == ()
    asked = {
        (name, way): (int((relation.sizes > 0).sum()), int(relation.sizes.sum()))
        for way in ("i2t", "t2i")
        for name, relation in getattr(found, way).others.items()
    }
    assert asked == {
        ("eccv", "i2t"): (1261, 22_550), ("eccv", "t2i"): (1332, 11_279),
        ("cxc", "i2t"): (5000, 35_585), ("cxc", "t2i"): (24_972, 35_585),
    }  # fmt: skip
    # two right captions are not among the 25,000: they cannot be found, and count all the same
    assert int(found.i2t.others["eccv"].matches.counts.sum()) == 22_548


def test_values_average_to_the_packages_figures(coco, judge, capsys):
    """Some queries of each kind against the whole gallery, on scores that favour right answers."""
    generator = np.random.default_rng(0)
    image_ids = [entry["coco_id"] for entry in coco.metadata]
    caption_ids = [int(ident) for ident in coco.caption_ids]
    absent = [575916, 421999]  # those with a right caption that is not there
    asked = {
        "i2t": [*absent, *generator.choice(list(judge.eccv_gts["i2t"]), 30, replace=False).tolist()],
        "t2i": generator.choice(list(judge.eccv_gts["t2i"]), 40, replace=False).tolist(),
    }
    found = protocol(coco)
    theirs, retrieved, means = type(judge)(), {}, {}
    for name in ("coco_gts", "cxc_gts", "eccv_gts"):  # these queries only
        answers = getattr(judge, name)
        setattr(theirs, name, {way: {k: v for k, v in answers[way].items() if k in asked[way]} for way in asked})
    for way, own, others in (("i2t", image_ids, caption_ids), ("t2i", caption_ids, image_ids)):
        truth, rows = getattr(found, way), np.array([own.index(ident) for ident in asked[way]])
        relations = {name: Relation(r.matches[rows], r.sizes[rows]) for name, r in truth.others.items()}
        matrix = generator.standard_normal((len(rows), len(others))).astype(np.float32)
        for relation in relations.values():
            matrix += 1.7 * relation.matches.dense()
        relations[OWN] = Relation.of(truth.matches[rows])
        values = block_metrics(matrix, slice(0, len(rows)), relations, None)
        means[way] = {name: np.nanmean(array) for name, array in values.items()}
        best = np.asarray(others)[Ranking.from_scores(matrix, k=50).ids.numpy()]
        retrieved[way] = dict(zip(asked[way], best.tolist(), strict=True))
    figures = theirs.compute_all_metrics(retrieved["i2t"], retrieved["t2i"], target_metrics=FIGURES)
    capsys.readouterr()  # the package draws bars
    for name, ours in PAIRS.items():
        for way in ("i2t", "t2i"):
            assert means[way][ours] == pytest.approx(figures[name][way]), (ours, way)
            assert 0.02 < means[way][ours] < 0.98, "a case that says something"


SMALL = SimpleNamespace(
    coco_gts={"i2t": dict.fromkeys(range(100, 104)), "t2i": dict.fromkeys(range(500, 508))},
    cxc_gts={"i2t": {100: [500, 501, 504]}, "t2i": {504: [102, 100], 507: [103]}},
    eccv_gts={"i2t": {102: [504, 505, 500, 999]}, "t2i": {501: [100, 103]}},
)
"""A judge of four images and eight captions; caption 999 is nowhere."""


def small_split():
    dataset = toy(4, 2, labels=0, **COCO)
    return replace(dataset, caption_ids=tuple(str(500 + i) for i in range(8)))


def test_evaluation_takes_them_along(monkeypatch):
    monkeypatch.setattr(readings, "load_package", lambda: SMALL)
    images, captions = embeddings(small_split())
    score, rules = scores.create("csd"), protocol(small_split())
    assert [note.partition(":")[0] for note in rules.notes] == ["no PMRP", "no 1K"]
    found = evaluate_score(score, images, captions, rules)
    order = np.argsort(-score(images, captions).numpy()[2], kind="stable").tolist()
    hits = [item in (4, 5, 0) for item in order[:4]]
    values = found.i2t.values
    assert values["eccv r_precision"][2] == pytest.approx(sum(hits) / 4)
    precisions = [sum(hits[: i + 1]) / (i + 1) for i in range(4) if hits[i]]
    assert values["eccv map@r"][2] == pytest.approx(sum(precisions) / 4)
    assert np.isnan(values["eccv map@r"][[0, 1, 3]]).all()
    assert np.isfinite(found.t2i.values["cxc recall@1"]).tolist() == [i in (4, 7) for i in range(8)]
    assert "eccv recall@1" in found.i2t.metrics


def test_without_the_package_it_is_noted(monkeypatch):
    monkeypatch.setitem(sys.modules, "eccv_caption", None)
    monkeypatch.setattr(readings, "load_package", eccv.load_package.__wrapped__)
    note = protocol(small_split()).notes[-1]
    assert note.startswith("no ECCV Caption, no CxC: ")
    assert "pip install pcme[eccv]" in note


def test_a_part_of_the_split_is_not_judged():
    rules = protocol(toy(4, 2, **COCO))
    assert "30,000 of their images and captions are not in coco/test" in rules.notes[-1]
    assert not rules.t2i.others
    assert not protocol(toy()).t2i.others
