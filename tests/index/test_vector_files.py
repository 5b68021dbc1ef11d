"""Vectors computed elsewhere: NumPy, Parquet, clip-retrieval's folders; points and Gaussians."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from pcme import Gaussian, Points, SearchIndex
from pcme.errors import DataError, FormatError, ShapeError
from pcme.index.vector_files import is_vectors, vector_sources
from tests.helpers import random_gaussians
from tests.index.worlds import filled


@pytest.fixture
def vectors():
    return np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)


def test_a_numpy_file_of_points(tmp_path, vectors):
    np.save(tmp_path / "birds.npy", vectors.astype(np.float16))
    index = filled(tmp_path / "index", tmp_path / "birds.npy")
    query = Points(torch.from_numpy(vectors[4])[None, None])
    hits = index.search(query, k=3)
    assert hits[0].id == "birds/4"
    assert hits[0].uncertainty is None
    nearest = np.argsort(np.square(vectors - vectors[4]).sum(1))[:3]
    assert hits.ids == [f"birds/{n}" for n in nearest]


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_files_of_one_name_are_told_apart_by_their_numbers(tmp_path, vectors, suffix):
    index = SearchIndex.create(tmp_path / "index", dim=6)
    for folder, rows in (("A", vectors[:3]), ("B", vectors[3:]), ("C", vectors[:3])):
        (tmp_path / folder).mkdir()
        if suffix == "npy":
            np.save(tmp_path / folder / "a.npy", rows)
        else:
            pq.write_table(pa.table({"mean": rows.tolist()}), tmp_path / folder / "a.parquet")
    assert index.add(tmp_path / "A" / f"a.{suffix}").added == 3
    assert index.add(tmp_path / "C" / f"a.{suffix}").present == 3  # a copy
    with pytest.raises(DataError, match=r'duplicate id "a/0".* other numbers'):
        index.add(tmp_path / "B" / f"a.{suffix}")
    assert len(index) == 3
    assert index.add(tmp_path / "B" / f"a.{suffix}", on_conflict="replace").replaced == 3


def save_gaussians(path, count):
    """Gaussians in two files: means, and log σ beside them."""
    items = random_gaussians(count, 6, seed=0)
    path.parent.mkdir(exist_ok=True)
    np.save(path, items.mean.numpy())
    np.save(path.with_suffix(".log_sigma.npy"), items.log_sigma.numpy())
    return items


def test_log_sigma_beside_vectors_makes_gaussians_and_is_no_items_of_its_own(tmp_path):
    items = save_gaussians(tmp_path / "a.npy", 5)
    index = SearchIndex.create(tmp_path / "index", dim=6, score="csd", spread="diagonal")
    for path in sorted(tmp_path.glob("*.npy")):  # as a shell names them
        index.add(path)
    assert index.ids() == [f"a/{n}" for n in range(5)]
    hits = index.search(items[3], k=1)
    assert hits[0].id == "a/3"
    assert hits[0].uncertainty == pytest.approx(float(items[3].uncertainty()), rel=1e-5)
    save_gaussians(tmp_path / "img_emb" / "b.npy", 5)  # nor in a folder of clip-retrieval
    assert index.add(tmp_path).added == 5
    (tmp_path / "a.npy").unlink()
    with pytest.raises(DataError, match=r"a\.npy, which is missing"):
        index.add(tmp_path / "a.log_sigma.npy")


def clip_folder(folder, vectors):
    """What clip-retrieval's inference writes: numbered files, metadata row by row."""
    for name in ("img_emb", "text_emb", "metadata"):
        (folder / name).mkdir(parents=True)
    for number, rows in enumerate((slice(0, 20), slice(20, 30))):
        part = vectors[rows]
        np.save(folder / "img_emb" / f"img_emb_{number}.npy", part.astype(np.float16))
        np.save(folder / "text_emb" / f"text_emb_{number}.npy", -part.astype(np.float16))
        ids = range(rows.start, rows.stop)
        known = {
            "image_path": [f"photos/{n}.jpg" for n in ids],
            "caption": [f"bird {n}" for n in ids],
            "year": [2000 + n for n in ids],
        }
        pq.write_table(pa.table(known), folder / "metadata" / f"metadata_{number}.parquet")


def test_a_folder_of_clip_retrieval(tmp_path, vectors):
    clip_folder(tmp_path / "clip", vectors)
    assert is_vectors(tmp_path / "clip")
    index = filled(tmp_path / "index", tmp_path / "clip")
    assert index.describe().kinds == {"image": 30, "caption": 30}
    query = Points(torch.from_numpy(vectors[25])[None, None])
    hit = index.search(query, k=1, kind="image")[0]
    assert (hit.id, hit.path) == ("photos/25.jpg", "photos/25.jpg")
    assert (hit.text, hit.metadata) == ("bird 25", {"year": 2025})
    opposite = Points(-query.x)
    caption = index.search(opposite, k=1, kind="caption")[0]
    assert (caption.id, caption.text, caption.path) == ("photos/25.jpg#text", "bird 25", None)
    assert len(index.search(query, k=50, where="year < 2010", kind="image")) == 10


def test_a_folder_of_clip_retrieval_that_knows_paths_and_captions_only(tmp_path, vectors):
    clip_folder(tmp_path / "clip", vectors)
    for number, size in enumerate((20, 10)):
        known = {"image_path": [None, *(f"{number}-{n}" for n in range(1, size))]}
        known["caption"] = ["a bird"] * size
        pq.write_table(pa.table(known), tmp_path / f"clip/metadata/metadata_{number}.parquet")
    index = filled(tmp_path / "index", tmp_path / "clip")
    assert index.describe().columns == {}
    assert {"img_emb_0/0", "text_emb_1/0", "0-1", "1-1#text"} <= set(index.ids())
    assert "None" not in index.ids()


def test_images_and_captions_in_one_table(tmp_path, vectors):
    columns = {
        "mean": vectors[:4].tolist(),
        "kind": ["image", "caption", "caption", "image"],
        "path": [1, None, None, 2],
        "text": [None, 3, 4, None],
        "__index_level_0__": range(4),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    index = filled(tmp_path / "index", tmp_path / "a.parquet")
    assert index.ids("kind = 'caption'") == ["a/1", "a/2"]
    assert index.ids("path = '2' OR text = '3'") == ["a/1", "a/3"]
    assert index.describe().columns == {}
    assert index.verify().ok


@pytest.mark.parametrize("column", ["mean", "embedding", "vector"])
def test_parquet_with_and_without_sigma(tmp_path, column):
    items = random_gaussians(30, 6, seed=0)
    columns = {column: items.mean.tolist(), "id": [f"b{n}" for n in range(30)], "year": range(30)}
    pq.write_table(pa.table(columns), tmp_path / "points.parquet", row_group_size=7)
    points = filled(tmp_path / "points", tmp_path / "points.parquet")
    assert points.search(Points(items.mean[9:10, None]), k=1)[0].metadata == {"year": 9}
    columns["sigma"] = items.sigma.tolist()
    pq.write_table(pa.table(columns), tmp_path / "spread.parquet", row_group_size=7)
    options = {"score": "csd", "spread": "diagonal"}
    spread = filled(tmp_path / "spread", tmp_path / "spread.parquet", **options)
    hit = spread.search(items[9], k=1)[0]
    assert (hit.id, hit.uncertainty) == ("b9", pytest.approx(float(items[9].uncertainty())))


def test_a_sigma_of_zero_is_a_point(tmp_path):
    items = random_gaussians(3, 6, seed=0)
    sigma = items.sigma.clone()
    sigma[1] = 0
    pq.write_table(pa.table({"mean": items.mean.tolist(), "sigma": sigma.tolist()}), tmp_path / "a.parquet")
    index = filled(tmp_path / "index", tmp_path / "a.parquet", score="csd", spread="diagonal")
    hits = {hit.id: hit.uncertainty for hit in index.search(items[1])}
    assert hits["a/1"] < 1e-15 < hits["a/0"]
    pq.write_table(pa.table({"mean": items.mean.tolist(), "sigma": [[0.0] * 6] * 3}), tmp_path / "b.parquet")
    assert filled(tmp_path / "other", tmp_path / "b.parquet").search(items[1])[0].id == "b/1"


def test_gaussians_among_points_count_by_their_means(tmp_path, vectors):
    np.save(tmp_path / "a.npy", vectors)
    index = filled(tmp_path / "index", tmp_path / "a.npy")
    query = Gaussian(torch.from_numpy(vectors[2:3]), torch.zeros(1, 1))
    assert index.search(query, k=1).ids == ["a/2"]
    with pytest.raises(ShapeError, match="one point per item, got 2"):
        index.search(Points(torch.zeros(1, 2, 6)))


def test_folders_that_are_wrong_are_errors(tmp_path, vectors):
    (tmp_path / "clip" / "img_emb").mkdir(parents=True)
    with pytest.raises(DataError, match="has no vectors"):
        vector_sources(tmp_path / "clip")
    clip_folder(tmp_path / "other", vectors)
    pq.write_table(pa.table({"year": [1]}), tmp_path / "other" / "metadata" / "metadata_0.parquet")
    with pytest.raises(DataError, match="got 1"):
        filled(tmp_path / "index", tmp_path / "other")
    (tmp_path / "a.parquet").write_bytes(b"junk")
    with pytest.raises(FormatError, match="is not a Parquet file"):
        filled(tmp_path / "third", tmp_path / "a.parquet")
