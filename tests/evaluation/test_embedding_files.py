"""Files of embeddings: every kind of file gives the same, and what is none is refused without being unpickled."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from pcme import Gaussian, Points
from pcme.errors import DataError, FormatError, PcmeError, ShapeError
from pcme.evaluation.embedding_files import read_embeddings
from tests.helpers import random_gaussians

GAUSSIANS = random_gaussians(5, 4, seed=0)
MEAN, LOG_SIGMA = GAUSSIANS.mean.numpy(), GAUSSIANS.log_sigma.numpy()
TWO = np.random.default_rng(0).normal(size=(5, 2, 4))


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path, row_group_size=2)


def saved(folder, how, name="a"):
    """The Gaussians above in a file of this kind."""
    path = folder / f"{name}.{how}"
    if how == "npy":
        np.save(path, MEAN)
        np.save(folder / f"{name}.log_sigma.npy", LOG_SIGMA)
    elif how == "npz":
        np.savez(path, mean=MEAN, log_sigma=LOG_SIGMA)
    elif how == "safetensors":
        GAUSSIANS.save(path)
    else:
        parquet(path, mean=list(MEAN), log_sigma=list(LOG_SIGMA), id=[f"bird {n}" for n in range(5)])
    return path


@pytest.mark.parametrize("how", ["npy", "npz", "safetensors", "parquet"])
def test_gaussians_come_back_from_every_kind_of_file(tmp_path, how):
    stored = read_embeddings(saved(tmp_path, how), "image")
    assert isinstance(stored.items, Gaussian)
    assert torch.equal(stored.items.mean, GAUSSIANS.mean)
    assert torch.equal(stored.items.log_sigma, GAUSSIANS.log_sigma)
    names = tuple(f"bird {n}" for n in range(5)) if how == "parquet" else None
    assert (stored.ids, stored.kind) == (names, "image")


def test_points_are_one_array_of_any_name_with_one_or_several_an_item(tmp_path):
    np.save(tmp_path / "one.npy", MEAN.astype(np.float16))
    np.save(tmp_path / "two.npy", np.asfortranarray(TWO).astype(">f8"))
    np.savez(tmp_path / "named.npz", image_embeddings=MEAN)
    np.savez(tmp_path / "means.npz", mean=MEAN, sizes=np.arange(5))
    save_file({"x": torch.from_numpy(MEAN).bfloat16()}, tmp_path / "half.safetensors")
    Points(torch.from_numpy(TWO)).save(tmp_path / "own.safetensors")
    found = {path.name: read_embeddings(path, "caption").items for path in tmp_path.iterdir()}
    assert {name: tuple(items.x.shape) for name, items in found.items()} == {
        "one.npy": (5, 1, 4), "two.npy": (5, 2, 4), "named.npz": (5, 1, 4), "means.npz": (5, 1, 4),
        "half.safetensors": (5, 1, 4), "own.safetensors": (5, 2, 4),
    }  # fmt: skip
    for name in ("two.npy", "own.safetensors"):
        assert found[name].dtype == torch.float64
        np.testing.assert_array_equal(found[name].x.numpy(), TWO)
    assert torch.equal(found["named.npz"].x[:, 0], GAUSSIANS.mean)
    for name in ("one.npy", "half.safetensors"):
        torch.testing.assert_close(found[name].x[:, 0], GAUSSIANS.mean, rtol=0.01, atol=0.01)


def test_a_parquet_file_of_both_kinds_has_images_and_captions(tmp_path):
    kinds, ids = ["image", "caption", "caption", None, "image"], list("abcde")
    parquet(tmp_path / "both.parquet", kind=kinds, id=ids, vector=list(MEAN))
    images, captions = (read_embeddings(tmp_path / "both.parquet", kind) for kind in ("image", "caption"))
    assert (images.ids, captions.ids) == (("a", "e"), ("b", "c"))
    np.testing.assert_array_equal(images.items.x[:, 0].numpy(), MEAN[[0, 4]])


def with_nan():
    values = MEAN.copy()
    values[[1, 3], 2] = np.nan, np.inf
    return values


OBJECTS = np.array([{"a": 1}, None], dtype=object)
WRONG = {
    "nowhere.npy": (None, DataError, "nowhere.npy: no such file"),
    "folder.npy": ("folder", DataError, "folder.npy: no such file"),
    "a.pt": (b"PK", FormatError, r'a\.pt: must be one of .npy, .npz, .safetensors, .parquet, got "\.pt"'),
    "text.npy": (b"a picture", FormatError, "text.npy: not a NumPy file of numbers"),
    "empty.npy": (b"", FormatError, "empty.npy: not a NumPy file of numbers"),
    "zip.npy": (b"PK\x03\x04 and so on", FormatError, "zip.npy: not a NumPy file of numbers"),
    "objects.npy": (OBJECTS, FormatError, "objects.npy: not a NumPy file of numbers.*Python objects"),
    "whole.npy": (np.ones((5, 4), np.int64), FormatError, r"whole.npy: must hold real numbers .* got int64 \[5, 4\]"),
    "flat.npy": (
        np.ones(5),
        FormatError,
        r"flat.npy: must hold real numbers \[n, d\] or \[n, k, d\], got float64 \[5\]",
    ),
    "none.npy": (np.ones((0, 4)), FormatError, r"none.npy: must hold real numbers .* got float64 \[0, 4\]"),
    "nan.npy": (with_nan(), DataError, "nan.npy: must be finite, got NaN .* in 2 of 5 rows, first in row 1"),
    "text.npz": (b"a picture", FormatError, "text.npz: not an archive of arrays"),
    "array.npz": (MEAN, FormatError, "array.npz: not an archive of arrays"),
    "objects.npz": ({"mean": MEAN, "log_sigma": OBJECTS}, FormatError, "objects.npz: not an archive.*allow_pickle"),
    "other.npz": ({"a": MEAN, "b": MEAN}, FormatError, "other.npz: must hold mean and log_sigma.* got a, b"),
    "spread.npz": ({"log_sigma": MEAN}, FormatError, "spread.npz: must hold mean and log_sigma.* got log_sigma"),
    "shape.npz": ({"mean": MEAN, "log_sigma": MEAN[:, :2]}, FormatError, r"shape.npz: log_sigma must .* got \[5, 2\]"),
    "sigma.npz": ({"mean": MEAN, "log_sigma": with_nan()}, DataError, "sigma.npz: log_sigma: must be finite"),
    "points.npz": ({"mean": TWO, "log_sigma": TWO}, FormatError, r"points.npz: mean: must hold real numbers \[n, d\]"),
    "text.safetensors": (b"a picture", FormatError, "text.safetensors: not readable as safetensors"),
    "text.parquet": (b"a picture", FormatError, "text.parquet: not a Parquet file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_holds_no_embeddings_is_one_clear_error(tmp_path, name):
    content, error, message = WRONG[name]
    path = tmp_path / name
    if isinstance(content, str):
        path.mkdir()
    elif isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, dict):
        np.savez(path, **content)
    elif content is not None:
        with path.open("wb") as file:
            np.save(file, content, allow_pickle=True)
    with pytest.raises(error, match=message):
        read_embeddings(path, "image")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": ["a"]}, "lacks a column mean or embedding or vector, got id"),
        ({"mean": [[1.0, 2.0]], "kind": ["caption"]}, "lacks rows of this kind"),
        ({"mean": [[1.0, 2.0], [1.0]]}, '"mean" must hold vectors of one length'),
        ({"mean": [[1.0, 2.0], None]}, '"mean" must hold vectors of one length'),
        ({"mean": [[1, 2]]}, '"mean" must hold vectors of one length, got list<.*int64>'),
        ({"mean": ["a"]}, '"mean" must hold vectors of one length, got string'),
        ({"mean": [[1.0, None]]}, "must be finite, got NaN"),
    ],
)
def test_tables_without_vectors_are_refused(tmp_path, columns, message):
    parquet(tmp_path / "a.parquet", **columns)
    with pytest.raises(PcmeError, match=message):
        read_embeddings(tmp_path / "a.parquet", "image")


def test_as_many_log_sigmas_as_means_are_wanted(tmp_path):
    np.save(tmp_path / "a.npy", MEAN)
    np.save(tmp_path / "a.log_sigma.npy", LOG_SIGMA[:4])
    with pytest.raises((FormatError, ShapeError), match=r"a\.npy: log_sigma must have the shape of mean, \[5, 4\]"):
        read_embeddings(tmp_path / "a.npy", "image")
    np.save(tmp_path / "a.log_sigma.npy", LOG_SIGMA[:, :1])
    assert read_embeddings(tmp_path / "a.npy", "image").items.log_sigma.shape == (5, 1)
