"""Rows of CSV, TSV, JSONL and Parquet files, read one by one; damaged ones are reported."""

import codecs
import csv
import textwrap
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pcme.data.problems import Problems
from pcme.data.text_files import MAX_LINE, json_object, text_lines
from pcme.errors import DataError, FormatError

Row = Mapping[str, Any]
Rows = Iterator[tuple[str, Row]]
Line = tuple[str, str]
BATCH = 1024  # rows of a Parquet file that are in memory at once


def listed(names: Iterable[str]) -> str:
    """Join names for an error message, cut to a readable length."""
    return textwrap.shorten(", ".join(names), 300, placeholder=" ...")


def column_names(path: Path) -> list[str]:
    """The columns, before any row is looked at."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        names = _parquet_columns(path)
    elif suffix == ".jsonl":
        names = list(next(_jsonl_rows(path, Problems()), ("", {}))[1])
    else:
        names = next(_csv_cells(path, Problems()), ("", []))[1]
    if not names:
        raise DataError(f"{path}: is empty. A table needs the columns image and caption.")
    if len(set(names)) < len(names):
        raise FormatError(f"{path}: has two columns of one name, got {listed(names)}. Rename one.")
    return names


def read_rows(path: Path, problems: Problems, *, only: Sequence[str] | None = None) -> Rows:
    """(where, {column: value}) of every row that can be read; the others are reported."""
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return _parquet_rows(path, problems, only or _parquet_columns(path))
    return _jsonl_rows(path, problems) if suffix == ".jsonl" else _csv_rows(path, problems)


def _jsonl_rows(path: Path, problems: Problems) -> Rows:
    for where, line in _utf8_lines(path, problems):
        if line.strip() and (row := json_object(line, where, problems)) is not None:
            yield where, row


def _csv_rows(path: Path, problems: Problems) -> Rows:
    records = _csv_cells(path, problems)
    _, header = next(records, ("", []))
    for where, cells in records:
        if len(cells) == len(header):
            yield where, dict(zip(header, cells, strict=True))
        else:
            problems.add("row-malformed", where, f"{len(cells)} cells, {len(header)} columns")


def _csv_cells(path: Path, problems: Problems) -> Iterator[tuple[str, list[str]]]:
    """(where, cells) of each record; after a damaged one, reading goes on at its second line."""
    # The limit holds for the whole process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), MAX_LINE))
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    lines = _utf8_lines(path, problems)
    pending: deque[Line] = deque()
    width = 0
    while True:
        record: list[Line] = []
        texts = _record_lines(lines, pending, record)
        try:
            cells = next(csv.reader(texts, delimiter=delimiter, skipinitialspace=True, strict=True))
        except StopIteration:
            return
        except csv.Error as error:
            pending.extendleft(reversed(record[1:]))
            # Where nothing is ever quoted, a caption may begin with a quotation mark.
            cells = record[0][1].split(delimiter) if delimiter == "\t" else []
            if len(cells) != width or "\0" in record[0][1]:
                problems.add("row-malformed", record[0][0], str(error))
                continue
        if cells:
            width = width or len(cells)
            yield record[0][0], [cell.strip() for cell in cells]


def _record_lines(lines: Iterator[Line], pending: deque[Line], record: list[Line]) -> Iterator[str]:
    """The lines that make one record: an open quotation mark must not swallow the whole file."""
    size = 0
    while size <= MAX_LINE and (item := pending.popleft() if pending else next(lines, None)):
        record.append(item)
        size += len(item[1])
        if "\0" in item[1]:
            raise csv.Error("a NUL byte")
        yield item[1] + "\n"


def _utf8_lines(path: Path, problems: Problems) -> Iterator[Line]:
    with open(path, "rb") as file:
        mark = file.read(2)
    if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        raise FormatError(f"{path}: is UTF-16, got {mark!r} at its start. Save it as UTF-8.")
    return text_lines(path, problems)


def _parquet(path: Path) -> Any:  # noqa: ANN401 - pyarrow has no types
    from pyarrow import ArrowException, parquet

    try:
        return parquet.ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise FormatError(f"{path}: not a Parquet file, {error}. Is it complete?") from error


def _parquet_columns(path: Path) -> list[str]:
    """The columns but for those of bytes: images inside a table are not read."""
    with _parquet(path) as file:
        return [column.name for column in file.schema_arrow if "binary" not in str(column.type)]


def _parquet_rows(path: Path, problems: Problems, columns: Sequence[str]) -> Rows:
    number = 0
    with _parquet(path) as file:
        for group in range(file.num_row_groups):
            batches = file.iter_batches(BATCH, row_groups=[group], columns=columns)
            end = number + file.metadata.row_group(group).num_rows
            while number < end:
                try:
                    rows = _plain(next(batches))
                except Exception as error:  # Arrow raises nearly anything on damaged input
                    where = f"{path.name}:{number + 1}-{end}"
                    problems.add("row-malformed", where, f"cannot be read: {error!r}")
                    break
                for row in rows:
                    number += 1
                    if row is None:
                        problems.add("row-malformed", f"{path.name}:{number}", "not UTF-8")
                    else:
                        yield f"{path.name}:{number}", row
            number = end


def _plain(batch: Any) -> list[Row | None]:  # noqa: ANN401
    """The rows of a batch; None for one that holds text that is not UTF-8."""
    try:
        return list(batch.to_pylist())
    except UnicodeDecodeError:
        rows = (batch.slice(index, 1) for index in range(len(batch)))
        return [None] if len(batch) == 1 else [row for one in rows for row in _plain(one)]
