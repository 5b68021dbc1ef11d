"""Files of vectors that are wrong are errors that name the file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pcme.errors import ConfigError, DataError, FormatError
from tests.index.worlds import filled


def test_columns_of_one_name_are_an_error(tmp_path):
    twice = pa.Table.from_arrays([pa.array([[0.0] * 6])] * 2, ["mean", "mean"])
    pq.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(FormatError, match='has 2 columns "mean"'):
        filled(tmp_path / "index", tmp_path / "a.parquet")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda f: (f / "a.npy").write_bytes(b"junk"), "is not a NumPy file"),
        (lambda f: (f / "a.npy").touch(), "is not a NumPy file"),
        (lambda f: np.save(f / "a.npy", np.arange(6)), "real numbers of shape"),
        (lambda f: np.save(f / "a.npy", np.full((2, 6), np.nan)), "NaN or infinite"),
        (lambda f: (np.save(f / "a.npy", np.zeros((2, 6))), np.save(f / "a.log_sigma.npy", np.zeros((3, 6)))), "got 3"),
    ],
)
def test_files_that_are_wrong_are_errors(tmp_path, write, message):
    write(tmp_path)
    with pytest.raises((FormatError, DataError), match=message):
        filled(tmp_path / "index", tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": ["a"]}, "no column mean or embedding or vector"),
        ({"mean": [[1.0, 2.0], [1.0]]}, "must have one length"),
        ({"mean": [[0.0] * 6] * 2, "kind": ["image", "film"]}, "image or caption, got 'film'"),
        ({"mean": [[0.0] * 6] * 2, "id": ["a", "a"]}, '"a" is given twice'),
        ({"mean": [[0.0] * 6] * 2, "id": ["a", None]}, r"a\.parquet: row 1 has no id"),
        ({"mean": [[0.0] * 6], "id": [["a"]]}, '"id" must hold texts, got list'),
        ({"mean": [[0.0] * 6, None]}, '1 rows have no "mean"'),
        ({"embedding": ["a bird"]}, "must hold vectors, lists of numbers, got string"),
        ({"mean": [["a", "b"]]}, "must hold vectors, lists of numbers, got list"),
        ({"mean": [[0.0] * 6], "a`b": [1]}, '"a`b" cannot be a column of metadata'),
        ({"mean": [[0.0] * 6], "seq": [1]}, '"seq" cannot be a column'),
    ],
)
def test_tables_that_are_wrong_are_errors(tmp_path, columns, message):
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises((ConfigError, FormatError, DataError), match=message):
        filled(tmp_path / "index", tmp_path / "a.parquet")
