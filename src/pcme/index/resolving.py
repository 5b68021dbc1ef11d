"""What a person means by ITEMS and QUERY on the command line, told apart by what is there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from pcme import algebra, data
from pcme.data.problems import Problems
from pcme.data.records import IMAGE_SUFFIXES
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.columns import Kind
from pcme.index.encoder import Encoder
from pcme.index.items import Captions, Loose, Pictures, Source, captions_of, images_below, images_of
from pcme.index.queries import Query
from pcme.index.vectors import MEANS, NumpyVectors, is_vectors, vector_sources

__all__ = ["combined", "kinds_of", "metadata_file", "query_lines", "sources", "with_metadata"]


def sources(
    where: str, kinds: Sequence[Kind], splits: Sequence[str], problems: Problems
) -> list[Source]:
    """The items at a path, or of a dataset by name; `splits` says which, if not all.

    A folder without captions is a folder of pictures; a .txt file has a caption on each line.
    """
    path = Path(where)
    if path.suffix.lower() in IMAGE_SUFFIXES:
        return [Pictures(Loose([path]), [path.name])]
    if path.suffix == ".txt" and path.is_file():
        return [_lines(path)]
    if is_vectors(path) and (path.suffix != ".parquet" or _has_vectors(path)):
        return vector_sources(path)
    try:
        dataset = data.find(where)
    except ConfigError:
        if not path.is_dir():
            raise
        return [images_below(path)]
    chosen = [dataset.checked_split(name) for name in splits or dataset.splits]
    loaded = [dataset.load(name, problems) for name in chosen]
    made = {"image": images_of, "caption": captions_of}
    return [made[kind](split) for split in loaded for kind in kinds]


def kinds_of(name: Literal["image", "caption", "both"]) -> list[Kind]:
    """The kinds of items of a dataset that are meant."""
    return ["image", "caption"] if name == "both" else [name]


def combined(
    query: str, also: Sequence[str], instead: Sequence[str], unwanted: Sequence[str]
) -> Query:
    """(query and also ...) or instead ..., but not unwanted: texts, images or vectors."""
    found: Query = _query(query)
    if also:
        found = algebra.all_of([found, *map(_query, also)])
    if instead:
        found = algebra.any_of([found, *map(_query, instead)])
    if unwanted:
        found = algebra.but_not(found, algebra.any_of([*map(_query, unwanted)]))
    return found


def query_lines(path: Path) -> list[str]:
    """The queries in a text file, one a line."""
    try:
        lines = [line for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]
    except OSError as error:
        raise DataError(f"{path} cannot be read - {error.strerror or error}") from error
    if not lines:
        raise DataError(f"{path} has no queries - expected one a line")
    return lines


def metadata_file(path: Path) -> pa.Table:
    """A CSV, JSON-lines or Parquet table with a column `id`, and what is known in the others."""
    readers = {
        ".csv": pyarrow.csv.read_csv,
        ".jsonl": pyarrow.json.read_json,
        ".parquet": pq.read_table,
    }
    if path.suffix not in readers:
        raise ConfigError(f"{path}: metadata are a .csv, .jsonl or .parquet file")
    try:
        found: pa.Table = readers[path.suffix](path)
    except (OSError, pa.ArrowException) as error:
        raise FormatError(f"{path} cannot be read - {error}") from error
    if "id" not in found.column_names:
        raise FormatError(
            f"{path} has no column id to say whose the metadata are - it has "
            f"{', '.join(found.column_names)}"
        )
    return found


def with_metadata(source: Source, table: pa.Table) -> Source:
    """The source, each item with its row of the table; items without a row get no values.

    An item of a folder is also known by its name in the folder: "a.jpg" for "photos/a.jpg".
    """
    if not isinstance(source, Pictures | Captions):
        raise ConfigError("metadata of vectors stand beside them: in the Parquet file itself")
    rows = {str(one): n for n, one in enumerate(table["id"].to_pylist())}
    places = [rows.get(one, rows.get(one.partition("/")[2])) for one in source.ids]
    if all(place is None for place in places):
        raise DataError(
            f"none of the {len(rows):,} ids in the metadata is one of the items - such as "
            f'"{next(iter(rows), "")}" beside "{source.ids[0]}"'
        )
    found = table.drop_columns(["id"]).take(pa.array(places, pa.int64()))
    for name in source.metadata.column_names if source.metadata is not None else ():
        if name not in found.column_names:
            found = found.append_column(name, source.metadata[name])  # type: ignore[index]
    return replace(source, metadata=found)


def _query(text: str) -> Query:
    """An image where there is a file of that name, a vector where it is a .npy, else a text."""
    path = Path(text)
    if path.suffix == ".npy":
        vectors = NumpyVectors(path)
        return vectors.rows(range(len(vectors.ids)), Encoder(None), Problems()).embedding
    suffix = path.suffix.lower() in IMAGE_SUFFIXES
    return path if suffix and (" " not in text or path.is_file()) else text


def _lines(path: Path) -> Captions:
    texts = query_lines(path)
    return Captions(texts, [f"{path.name}:{n}" for n in range(1, len(texts) + 1)])


def _has_vectors(path: Path) -> bool:
    try:
        names = pq.read_schema(path).names
    except (OSError, pa.ArrowException) as error:
        raise FormatError(f"{path} is not a Parquet file - {error}") from error
    return any(name in names for name in MEANS)
