"""Files of embeddings and scores are judged as the embeddings and scores themselves are."""

import json

import numpy as np
import pytest
import torch

from pcme import Points, scores
from pcme.errors import ConfigError, DataError, ShapeError
from pcme.evaluation import Evaluation, compare_evaluations, evaluate_embeddings, evaluate_matrix, evaluate_score
from tests.data.formats import official
from tests.data.formats.test_coco import karpathy_entry
from tests.evaluation.splits import embeddings, toy
from tests.evaluation.test_passes import assert_same, looped
from tests.helpers import generator, picture

SPLIT = toy(12, 3, density=0.3)


def stored(folder, images, captions):
    """Both sides in files."""
    paths = folder / "images.safetensors", folder / "captions.safetensors"
    for items, path in zip((images, captions), paths, strict=True):
        items.save(path)
    return paths


def vectors(folder, images, captions, dim=4, seed=0):
    """Points of any length in files."""
    drawn = np.random.default_rng(seed)
    paths = folder / "images.npy", folder / "captions.npy"
    for path, shape in zip(paths, (images, captions), strict=True):
        np.save(
            path, drawn.normal(size=(*np.atleast_1d(shape), dim)) * drawn.uniform(0.1, 9, (*np.atleast_1d(shape), 1))
        )
    return paths


def assert_equal(found, expected):
    for way in ("i2t", "t2i"):
        assert_same(found.direction(way).values, expected.direction(way).values)
        np.testing.assert_array_equal(found.direction(way).clusters, expected.direction(way).clusters)
        assert found.direction(way).ids == expected.direction(way).ids
    assert (found.digest, found.labels, found.dataset) == (expected.digest, expected.labels, expected.dataset)


@pytest.mark.parametrize("classes", [0, 3])
def test_gaussians_in_files_have_the_figures_of_those_in_memory(tmp_path, classes):
    split = toy(12, 3, classes=classes, density=0.3)
    split = split.matching_class() if classes else split
    images, captions = embeddings(split)
    report = evaluate_embeddings(*stored(tmp_path, images, captions), split, scores="csd,kl")
    for found, name in zip(report.results, ("csd", "kl"), strict=True):
        assert found.score == name
        assert_equal(found, evaluate_score(scores.create(name), images, captions, split))
    assert [cost.space for cost in report.costs] == ["O(N)", "O(2N)"]
    (usual, *_) = everything = evaluate_embeddings(*stored(tmp_path, images, captions), split).results
    assert [each.score for each in everything] == ["mean", "csd", "match_prob"]
    assert_equal(usual, evaluate_score(scores.create("mean"), images, captions, split))


@pytest.mark.parametrize("points", [1, 2])
def test_points_are_compared_by_the_cosine_of_the_nearest_pair(tmp_path, points):
    """Against loops over the cosines of vectors whose lengths differ by 90 times."""
    paths = vectors(tmp_path, (12, points), 36)
    x, y = (np.load(path).reshape(count, -1, 4) for path, count in zip(paths, (12, 36), strict=True))
    x, y = (side / np.sqrt((side**2).sum(-1, keepdims=True)) for side in (x, y))
    cosines = np.einsum("ikd,cld->cikl", x, y).max((2, 3))
    (found,) = evaluate_embeddings(*paths, SPLIT).results
    assert (found.score, found.parameters) == ("cosine", {})
    labels, owner = SPLIT.labels.values, SPLIT.caption_image
    truth = SPLIT.matches().dense()
    assert_same(found.t2i.values, looped(cosines, truth, labels[owner], labels))
    assert_same(found.i2t.values, looped(cosines.T, truth.T, labels, labels[owner]))


def test_cosine_stands_among_the_other_scores(tmp_path):
    paths = vectors(tmp_path, 12, 36)
    several = evaluate_embeddings(*paths, SPLIT, scores=["mean", "cosine"])
    assert [each.score for each in several.results] == ["cosine", "mean"]
    x, y = (Points(torch.from_numpy(np.load(path))[:, None]) for path in paths)
    assert_equal(several.results[1], evaluate_score(scores.create("mean"), x, y, SPLIT))
    every = evaluate_embeddings(*paths, SPLIT, scores="all")
    assert [each.score for each in every.results] == ["cosine", "average_l2", "match_prob", "mean", "nearest"]
    assert any(note.startswith("left out, since they do not compare Points") for note in every.notes)
    of_means = evaluate_embeddings(*stored(tmp_path, *embeddings(SPLIT)), SPLIT, scores="cosine,mean").results
    assert_same(of_means[0].t2i.values, of_means[1].t2i.values)  # images' means have length one


def test_a_matrix_has_the_figures_of_the_score_that_made_it_and_is_compared(tmp_path):
    images, captions = embeddings(SPLIT)
    np.save(tmp_path / "csd.npy", scores.create("csd")(captions, images).numpy().T)
    steps = []
    report = evaluate_matrix(tmp_path / "csd.npy", SPLIT, progress=lambda *step: steps.append(step))
    (found,) = report.results
    expected = evaluate_score(scores.create("csd"), images, captions, SPLIT)
    assert_equal(found, expected)
    assert (found.score, found.parameters, report.costs) == ("matrix", {"file": "csd.npy"}, (None,))
    assert steps[-1] == ("scores: matrix", 48, 48)
    report.save(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "summary.json").read_text())[0]["cost"] is None
    again = Evaluation.load(tmp_path / "out" / "matrix.npz")
    assert [each.p for each in compare_evaluations({"files": again, "memory": expected}).differences] == [1, 1]


def test_a_matrix_of_distances_is_noticed(tmp_path):
    drawn = np.random.default_rng(0)
    images = drawn.normal(size=(12, 8))
    captions = images[SPLIT.caption_image] + 0.1 * drawn.normal(size=(36, 8))
    closeness = -np.square(images[:, None] - captions).sum(-1)
    for name, matrix, count in (("scores", closeness, 0), ("distances", -closeness, 1)):
        np.save(tmp_path / f"{name}.npy", matrix)
        notes = evaluate_matrix(tmp_path / f"{name}.npy", SPLIT).notes
        assert sum("negate distances" in note for note in notes) == count
    np.save(tmp_path / "random.npy", drawn.normal(size=(12, 36)))
    assert evaluate_matrix(tmp_path / "random.npy", SPLIT).notes == ()


def test_rows_with_names_may_have_any_order(tmp_path):
    images, captions = embeddings(SPLIT)
    rows, columns = (torch.randperm(count, generator=generator(count)) for count in (12, 36))
    ids = tmp_path / "image_ids.txt", tmp_path / "caption_ids.txt"
    names = [f"{n}.jpg" for n in range(12)], SPLIT.caption_ids
    for path, known, order in zip(ids, names, (rows, columns), strict=True):
        path.write_text("\n".join(known[n] for n in order) + "\n")
    shuffled = images[rows], captions[columns]
    (found,) = evaluate_embeddings(*stored(tmp_path, *shuffled), SPLIT, scores="csd", ids=ids).results
    expected = evaluate_score(scores.create("csd"), images, captions, SPLIT)
    assert_equal(found, expected)
    np.save(tmp_path / "m.npy", scores.create("csd")(captions, images).numpy().T[rows.numpy()][:, columns.numpy()])
    assert_equal(evaluate_matrix(tmp_path / "m.npy", SPLIT, ids=ids).results[0], expected)


@pytest.fixture
def coco(tmp_path):
    """Karpathy's file and the instances as they are published, for three test images, of which two are there."""
    entries = [karpathy_entry(number, "test") for number in (7, 5, 6)]
    (tmp_path / "dataset_coco.json").write_text(json.dumps({"images": entries}))
    for entry in entries[:2]:
        picture(tmp_path / entry["filepath"] / entry["filename"])
    (tmp_path / "annotations").mkdir()
    seen = official.instances((5, 6, 7, 8), [(7, 17), (7, 1, "crowd"), (5, 1)])
    (tmp_path / "annotations" / "instances_val2014.json").write_text(json.dumps(seen))
    return tmp_path


def test_files_for_coco_have_pmrp_by_the_published_annotations(coco):
    report = evaluate_embeddings(*vectors(coco, 3, 15), "coco", data_root=coco)
    (found,) = report.results
    assert (found.gallery, found.queries) == (3, 15)
    assert np.isnan(found.t2i.values["pmrp"]).tolist() == [False] * 10 + [True] * 5, "image 6 has no object"
    assert np.isnan(found.i2t.values["pmrp@2"]).tolist() == [False, False, True]
    assert found.i2t.values["pmrp@2"][:2].tolist() == [1, 1], "a cat and a person, or a person: one place differs"
    (again,) = evaluate_embeddings(coco / "images.npy", coco / "captions.npy", coco).results
    assert_equal(again, found)
    assert not [note for note in report.notes if "PMRP" in note]


def test_rows_may_be_those_of_the_images_that_are_here(coco):
    report = evaluate_embeddings(*vectors(coco, 2, 10), "coco", data_root=coco)
    assert report.notes[0] == "judged on the 2 images of coco/test that are here"
    assert report.results[0].gallery == 2
    with pytest.raises(DataError, match="must have 3 images and 15 captions, those of coco/test, got 4 and 15"):
        evaluate_embeddings(*vectors(coco, 4, 15), "coco", data_root=coco)
    for path in (coco / "val2014").iterdir():
        path.unlink()
    assert evaluate_embeddings(*vectors(coco, 3, 15), "coco", data_root=coco).results[0].gallery == 3
    with pytest.raises(DataError, match="must have 3 images"):
        evaluate_embeddings(*vectors(coco, 2, 10), "coco", data_root=coco)


def test_precisions_may_differ(tmp_path):
    images, captions = embeddings(SPLIT)
    found = evaluate_embeddings(*stored(tmp_path, images.to(torch.float64), captions), SPLIT, scores="csd").results[0]
    wide = evaluate_score(scores.create("csd"), *(side.to(torch.float64) for side in (images, captions)), SPLIT)
    assert_equal(found, wide)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    images, captions = embeddings(SPLIT)
    points = Points(captions.mean[:, None])
    with pytest.raises(ShapeError, match=r"images\.safetensors and .*captions\.safetensors: must both hold points or"):
        evaluate_embeddings(*stored(tmp_path, images, points), SPLIT)
    narrow = Points(images.mean[:, None, :2])
    with pytest.raises(ShapeError, match=r"captions\.safetensors: must have one dimension, got 2 and 3"):
        evaluate_embeddings(*stored(tmp_path, narrow, points), SPLIT)


def test_zeros_have_no_cosine_but_a_distance(tmp_path):
    paths = vectors(tmp_path, 12, 36)
    values = np.load(paths[1])
    values[[4, 30]] = 0
    np.save(paths[1], values)
    with pytest.raises(DataError, match=r"captions: a vector of zeros .* got 2 of 36, the first in row 4 of the split"):
        evaluate_embeddings(*paths, SPLIT)
    assert evaluate_embeddings(*paths, SPLIT, scores="mean").results[0].score == "mean"


def test_mistakes_are_explained_before_anything_is_read(tmp_path):
    for wrong, message in (("maen", 'Did you mean "mean"'), (",", "no name"), (["cosine", "kll"], 'Did you mean "kl"')):
        with pytest.raises(ConfigError, match=message):
            evaluate_embeddings("nowhere.npy", "nowhere.npy", SPLIT, scores=wrong)
    paths = vectors(tmp_path, 12, 36)
    with pytest.raises(ConfigError, match='score "kl": does not compare Points'):
        evaluate_embeddings(*paths, SPLIT, scores="kl")
    with pytest.raises(ConfigError, match="aviary: is drawn and has no folder"):
        evaluate_embeddings(*paths, "aviary", data_root=tmp_path)
    with pytest.raises(ConfigError, match='no split "tset"'):
        evaluate_matrix(paths[0], "aviary", split="tset")
    with pytest.raises(DataError, match=r"images\.npy: must have 12 images and 36 captions.* got 12 and 4"):
        evaluate_matrix(paths[0], SPLIT)
