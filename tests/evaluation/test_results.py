"""Results: figures at the edge, files without pickle, errors that name what there is."""

import json
from dataclasses import replace

import numpy as np
import pytest

from pcme import scores
from pcme.errors import ConfigError, FormatError
from pcme.evaluation import Evaluation, evaluate_score, protocol
from tests.evaluation.splits import FOLDS_OF_4, direction, embeddings, toy


@pytest.fixture(scope="module")
def found():
    dataset = toy(20, 5, density=0.3)
    score = scores.create("csd_prob", scale=1.0)
    return evaluate_score(score, *embeddings(dataset), protocol(dataset, FOLDS_OF_4))


def test_figures_are_means_of_what_has_an_answer():
    one = direction({"r_precision": [0.5, np.nan, 1.0], "rank": [1, np.nan, 4]})
    assert one.metrics == {"r_precision": 0.75, "median_rank": 2, "mean_rank": 2.5}
    nothing = direction({"r_precision": [np.nan, np.nan]})
    assert np.isnan(nothing.metrics["r_precision"])
    assert Evaluation("toy/test", "csd", {}, nothing, one, "0").record()["i2t"] == {"r_precision": None}


def test_rsum_sums_three_recalls_of_either_way(found):
    sums = [sum(way.metrics[f"recall@{k}"] for k in (1, 5, 10)) for way in (found.i2t, found.t2i)]
    assert [found.i2t.metrics["rsum"], found.t2i.metrics["rsum"]] == pytest.approx(sums)
    assert found.rsum == pytest.approx(100 * sum(sums))
    assert "1k rsum" in found.i2t.metrics
    folded = direction({"1k recall@1": [1, 0, 0, 0, np.nan]}, folds=[0, 1, 1, 1, -1])
    assert folded.metrics == {"1k recall@1": 0.5}, "folds of different sizes count alike"


def test_the_record_has_exactly_what_programs_read(found):
    record = json.loads(json.dumps(found.record(), allow_nan=False))
    assert list(record) == ["i2t", "t2i", "score", "queries", "gallery"]
    assert list(record["t2i"])[:6] == ["r_precision", "recall@1", "recall@5", "recall@10", "rsum", "map@r"]
    assert all(0 <= value <= 1 for name, value in record["t2i"].items() if not name.endswith(("rank", "rsum")))
    assert (record["queries"], record["gallery"], record["score"]) == (100, 20, "csd_prob")


def test_a_saved_evaluation_comes_back_bit_for_bit(found, tmp_path):
    path = tmp_path / "one.npz"
    found.save(path)
    again = Evaluation.load(path)
    assert again.record() == found.record()
    for way in ("i2t", "t2i"):
        left, right = found.direction(way), again.direction(way)
        assert (left.ids, left.gallery) == (right.ids, right.gallery)
        assert list(left.values) == list(right.values)
        pairs = [(left.clusters, right.clusters), (left.folds, right.folds)]
        for one, other in (*pairs, *zip(left.values.values(), right.values.values(), strict=True)):
            np.testing.assert_array_equal(one, other)
    about = [(e.dataset, e.parameters, e.digest, e.notes, e.labels) for e in (found, again)]
    assert about[0] == about[1]
    assert [p.name for p in tmp_path.iterdir()] == ["one.npz"]
    ids = ("größe.jpg", "a b\n.jpg", "\udcff.jpg")  # the last is a name that is no UTF-8
    one = replace(direction({"rank": np.ones(3)}), ids=ids)
    replace(found, i2t=one).save(path)
    assert Evaluation.load(path).i2t.ids == ids


def test_what_is_no_evaluation_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    np.savez(tmp_path / "pickled.npz", about=np.array([{}], object), allow_pickle=True)
    (tmp_path / "text.npz").write_text("no zip")
    for name in ("other.npz", "pickled.npz", "text.npz", "none.npz"):
        with pytest.raises(FormatError, match=f"{name}: not a saved evaluation"):
            Evaluation.load(tmp_path / name)


def test_a_damaged_file_is_refused_wherever_the_damage_is(found, tmp_path):
    path = tmp_path / "one.npz"
    found.save(path)
    whole = path.read_bytes()
    for start in range(0, len(whole) - 64, len(whole) // 40):
        flipped = bytes(255 - byte for byte in whole[start : start + 64])
        path.write_bytes(whole[:start] + flipped + whole[start + 64 :])
        with pytest.raises(FormatError, match=r"one\.npz: not a saved evaluation"):
            Evaluation.load(path)


def test_a_file_from_before_labels_were_recorded_is_read(found, tmp_path):
    path = tmp_path / "old.npz"
    found.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(arrays["about"].tobytes())
    assert about.pop("labels") == found.labels != ""
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(path, **arrays)
    assert Evaluation.load(path).labels == ""
    assert Evaluation.load(path).record() == found.record()


def test_a_file_that_cannot_be_written_and_an_unknown_metric_are_refused(found, tmp_path):
    with pytest.raises(FormatError, match="cannot be written"):
        found.save(tmp_path / "nowhere" / "x.npz")
    with pytest.raises(ConfigError, match=r"pmrp: not a metric .* Known: recall@1"):
        direction({"recall@1": [1, 0]}).of("pmrp")
