"""Readers of NumPy and Parquet files of vectors, with errors that name the file and the column."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from jaxtyping import Float, Float32

from pcme.errors import DataError, FormatError
from pcme.index.rows import matrix, metadata_table

ROW_NUMBER = re.compile(r"\s*|__index_level_\d+__")
"""The names that pandas gives to row numbers: empty in CSV, the other in Parquet."""


def map_numpy(path: Path) -> Float[np.ndarray, "n d"]:
    """Map the numbers in a .npy file; a single vector is one row."""
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (EOFError, OSError, ValueError) as error:
        raise FormatError(f"{path}: is not a NumPy file of numbers ({error}).") from error
    values = values[None] if values.ndim == 1 else values
    if values.ndim != 2 or values.dtype.kind != "f" or not len(values):
        raise FormatError(f"{path}: must hold real numbers of shape [n, d], got {values.dtype} {list(values.shape)}.")
    matrix: Float[np.ndarray, "n d"] = values
    return matrix


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a Parquet file; an error where two columns have one name."""
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise FormatError(f"{path}: is not a Parquet file ({error}).") from error
    for name, count in Counter(file.schema_arrow.names).items():
        if count > 1:
            raise FormatError(f'{path}: has {count} columns "{name}". Rename one, or leave it out.')
    return file


def first_present(names: Sequence[str], columns: Sequence[str]) -> str | None:
    """The first of these names that is a column."""
    return next((name for name in names if name in columns), None)


def texts_in(table: pa.Table, names: Sequence[str], path: Path) -> list[str | None] | None:
    """The first of these columns as texts, whatever its type; None where there is none."""
    name = first_present(names, table.column_names)
    if name is None:
        return None
    try:
        texts: list[str | None] = table[name].cast(pa.string()).to_pylist()
    except pa.ArrowException as error:
        raise FormatError(f'{path}: the column "{name}" must hold texts, got {table[name].type}.') from error
    return texts


def vectors_in(table: pa.Table, name: str, path: Path) -> Float32[np.ndarray, "n d"]:
    """A column of lists of one length as a matrix."""
    column, kind, types = table[name], table[name].type, pa.types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not is_list or not (types.is_floating(kind.value_type) or types.is_integer(kind.value_type)):
        raise FormatError(f'{path}: the column "{name}" must hold vectors, lists of numbers, got {kind}.')
    if column.null_count:
        raise DataError(f'{path}: {column.null_count:,} rows have no "{name}". Leave them out.')
    lengths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(lengths) != 1 or not lengths[0]:
        raise FormatError(f'{path}: the vectors of "{name}" must have one length, got {lengths}.')
    return matrix(column, lengths[0])


def with_columns(table: pa.Table | None, more: pa.Table | None) -> pa.Table | None:
    """The columns of both; where both have one, that of `more`."""
    if table is None or more is None:
        return table if more is None else more
    for name in table.column_names:
        if name not in more.column_names:
            more = more.append_column(name, table[name])
    return more


def without_row_numbers(table: pa.Table) -> pa.Table:
    """The table without the row numbers that pandas adds to what it writes."""
    return table.select([n for n, name in enumerate(table.column_names) if not ROW_NUMBER.fullmatch(name)])


def metadata_in(table: pa.Table, used: set[str | None]) -> pa.Table | None:
    """The columns that are metadata: all but those used for something else."""
    names = [name for name in table.column_names if name not in used]
    return metadata_table(without_row_numbers(table.select(names)), len(table))
