"""Vectors computed elsewhere: NumPy, Parquet, clip-retrieval's folders; points and Gaussians."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from pcme import Gaussian, Points, SearchIndex
from pcme.errors import DataError, PcmeError, ShapeError
from tests.helpers import random_gaussians
from tests.index.worlds import filled

VECTORS = np.random.default_rng(0).normal(size=(30, 6)).astype(np.float32)
GAUSSIANS = {"score": "csd", "spread": "diagonal"}


def point(row):
    return Points(torch.from_numpy(row)[None, None])


def save(path, values):
    """Write vectors, or the columns of a table, to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, values)
    else:
        table = pa.table({"mean": values.tolist()} if isinstance(values, np.ndarray) else values)
        pq.write_table(table, path, row_group_size=7)
    return path


def test_a_numpy_file_of_points(tmp_path):
    index = filled(tmp_path / "index", save(tmp_path / "birds.npy", VECTORS.astype(np.float16)))
    hits = index.search(point(VECTORS[4]), k=3)
    assert hits.ids == [f"birds/{n}" for n in np.argsort(np.square(VECTORS - VECTORS[4]).sum(1))[:3]]
    assert hits[0].uncertainty is None
    gaussian = Gaussian(torch.from_numpy(VECTORS[2:3]), torch.zeros(1, 1))
    assert index.search(gaussian, k=1).ids == ["birds/2"]  # counts by its mean
    with pytest.raises(ShapeError, match="one point per item, got 2"):
        index.search(Points(torch.zeros(1, 2, 6)))


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_files_of_one_name_are_told_apart_by_their_numbers(tmp_path, suffix):
    index = SearchIndex.create(tmp_path / "index", dim=6)
    rows = {"A": VECTORS[:3], "B": VECTORS[3:], "C": VECTORS[:3]}
    first, other, copy = (save(tmp_path / folder / f"a.{suffix}", part) for folder, part in rows.items())
    assert (index.add(first).added, index.add(copy).present) == (3, 3)
    with pytest.raises(DataError, match=r'duplicate id "a/0".* other numbers'):
        index.add(other)
    assert len(index) == 3
    assert index.add(other, on_conflict="replace").replaced == 3


def test_log_sigma_beside_vectors_makes_gaussians_and_is_no_items_of_its_own(tmp_path):
    items = random_gaussians(5, 6, seed=0)
    for name in ("a", "img_emb/b"):
        save(tmp_path / f"{name}.npy", items.mean.numpy())
        save(tmp_path / f"{name}.log_sigma.npy", items.log_sigma.numpy())
    index = SearchIndex.create(tmp_path / "index", dim=6, **GAUSSIANS)
    for path in sorted(tmp_path.glob("*.npy")):  # as a shell names them
        index.add(path)
    assert index.ids() == [f"a/{n}" for n in range(5)]
    hit = index.search(items[3], k=1)[0]
    assert (hit.id, hit.uncertainty) == ("a/3", pytest.approx(float(items[3].uncertainty()), rel=1e-5))
    assert index.add(tmp_path).added == 5  # nor in a folder of clip-retrieval
    (tmp_path / "a.npy").unlink()
    with pytest.raises(DataError, match=r"a\.npy, which is missing"):
        index.add(tmp_path / "a.log_sigma.npy")


def clip_folder(folder, metadata):
    """What clip-retrieval's inference writes: numbered files, metadata row by row."""
    for number, rows in enumerate((range(20), range(20, 30))):
        part = VECTORS[rows.start : rows.stop].astype(np.float16)
        save(folder / f"img_emb/img_emb_{number}.npy", part)
        save(folder / f"text_emb/text_emb_{number}.npy", -part)
        save(folder / f"metadata/metadata_{number}.parquet", metadata(rows))
    return folder


def test_a_folder_of_clip_retrieval(tmp_path):
    def metadata(rows):
        paths, captions = [f"photos/{n}.jpg" for n in rows], [f"bird {n}" for n in rows]
        return {"image_path": paths, "caption": captions, "year": [2000 + n for n in rows]}

    index = filled(tmp_path / "index", clip_folder(tmp_path / "clip", metadata))
    assert index.describe().kinds == {"image": 30, "caption": 30}
    image = index.search(point(VECTORS[25]), k=1, kind="image")[0]
    caption = index.search(point(-VECTORS[25]), k=1, kind="caption")[0]
    assert (image.id, image.path, image.text) == ("photos/25.jpg", "photos/25.jpg", "bird 25")
    assert (caption.id, caption.path, caption.text) == ("photos/25.jpg#text", None, "bird 25")
    assert image.metadata == {"year": 2025}
    assert len(index.search(point(VECTORS[25]), k=50, where="year < 2010", kind="image")) == 10


def test_a_folder_of_clip_retrieval_that_knows_paths_and_captions_only(tmp_path):
    def metadata(rows):
        return {"image_path": [None, *map(str, rows[1:])], "caption": ["a bird"] * len(rows)}

    index = filled(tmp_path / "index", clip_folder(tmp_path / "clip", metadata))
    assert index.describe().columns == {}
    ids = set(index.ids())
    assert ids >= {"img_emb_0/0", "text_emb_1/0", "1", "21#text"}
    assert "None" not in ids


def test_images_and_captions_in_one_table(tmp_path):
    known = {"kind": ["image", "caption", "caption", "image"], "path": [1, None, None, 2], "text": [None, 3, 4, None]}
    columns = {"mean": VECTORS[:4].tolist(), **known, "__index_level_0__": range(4)}
    index = filled(tmp_path / "index", save(tmp_path / "a.parquet", columns))
    assert index.ids("kind = 'caption'") == ["a/1", "a/2"]
    assert index.ids("path = '2' OR text = '3'") == ["a/1", "a/3"]
    assert index.describe().columns == {}
    assert index.verify().ok


@pytest.mark.parametrize("column", ["mean", "embedding", "vector"])
def test_parquet_with_and_without_sigma(tmp_path, column):
    items = random_gaussians(30, 6, seed=0)
    columns = {column: items.mean.tolist(), "id": [f"b{n}" for n in range(30)], "year": range(30)}
    points = filled(tmp_path / "points", save(tmp_path / "points.parquet", columns))
    assert points.search(Points(items.mean[9:10, None]), k=1)[0].metadata == {"year": 9}
    file = save(tmp_path / "spread.parquet", {**columns, "sigma": items.sigma.tolist()})
    hit = filled(tmp_path / "spread", file, **GAUSSIANS).search(items[9], k=1)[0]
    assert (hit.id, hit.uncertainty) == ("b9", pytest.approx(float(items[9].uncertainty())))


def test_a_sigma_of_zero_is_a_point(tmp_path):
    items = random_gaussians(3, 6, seed=0)
    sigma, mean = items.sigma.clone(), items.mean.tolist()
    sigma[1] = 0
    file = save(tmp_path / "a.parquet", {"mean": mean, "sigma": sigma.tolist()})
    uncertainty = {hit.id: hit.uncertainty for hit in filled(tmp_path / "index", file, **GAUSSIANS).search(items[1])}
    assert uncertainty["a/1"] < 1e-15 < uncertainty["a/0"]
    file = save(tmp_path / "b.parquet", {"mean": mean, "sigma": [[0.0] * 6] * 3})
    assert filled(tmp_path / "other", file).search(items[1])[0].id == "b/1"


ROW = [0.0] * 6


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.npy": np.arange(6)}, "real numbers of shape"),
        ({"a.npy": np.full((2, 6), np.nan)}, "NaN or infinite"),
        ({"a.npy": np.zeros((2, 6)), "a.log_sigma.npy": np.zeros((3, 6))}, "got 3"),
        ({"a/img_emb/x_0.npy": np.zeros((2, 6)), "a/metadata/metadata_0.parquet": {"year": [1]}}, "got 1"),
        ({"a/img_emb/x/y.npy": np.zeros((2, 6))}, "has no vectors"),
        ({"a.parquet": {"id": ["a"]}}, "no column mean or embedding or vector"),
        ({"a.parquet": {"mean": [[1.0, 2.0], [1.0]]}}, "must have one length"),
        ({"a.parquet": {"mean": [ROW] * 2, "kind": ["image", "film"]}}, "image or caption, got 'film'"),
        ({"a.parquet": {"mean": [ROW] * 2, "id": ["a", "a"]}}, '"a" is given twice'),
        ({"a.parquet": {"mean": [ROW] * 2, "id": ["a", None]}}, r"a\.parquet: row 1 has no id"),
        ({"a.parquet": {"mean": [ROW], "id": [["a"]]}}, '"id" must hold texts, got list'),
        ({"a.parquet": {"mean": [ROW, None]}}, '1 rows have no "mean"'),
        ({"a.parquet": {"embedding": ["a bird"]}}, "must hold vectors, lists of numbers, got string"),
        ({"a.parquet": {"mean": [["a", "b"]]}}, "must hold vectors, lists of numbers, got list"),
        ({"a.parquet": {"mean": [ROW], "a`b": [1]}}, '"a`b" cannot be a column of metadata'),
        ({"a.parquet": pa.Table.from_arrays([pa.array([ROW])] * 2, ["mean", "mean"])}, 'has 2 columns "mean"'),
        ({"a.npy": b"junk"}, "is not a NumPy file"),
        ({"a.npy": b""}, "is not a NumPy file"),
        ({"a.parquet": b"junk"}, "is not a Parquet file"),
    ],
)
def test_files_that_are_wrong_are_errors(tmp_path, files, message):
    for name, content in files.items():
        if isinstance(content, bytes):
            (tmp_path / name).write_bytes(content)
        else:
            save(tmp_path / name, content)
    with pytest.raises(PcmeError, match=message):
        filled(tmp_path / "index", tmp_path / next(iter(files)).partition("/")[0])
