"""What a person means by items and by a query, told apart by what is given and what is there."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias, cast

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from PIL import Image

from pcme import data
from pcme.data.dataset import CaptionDataset, Dataset, Files
from pcme.data.formats.sidecar import Sidecar
from pcme.data.problems import Problems
from pcme.data.records import IMAGE_SUFFIXES
from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.encoder import Encoder, Picture
from pcme.index.items import (
    Captions,
    Embeddings,
    ImageList,
    Pictures,
    Source,
    captions_of,
    images_below,
    images_of,
)
from pcme.index.queries import Query
from pcme.index.rows import Kind, checked_names, metadata_table, with_columns, without_row_numbers
from pcme.index.vector_files import MEANS, NumpyVectors, is_vectors, vector_sources

__all__ = ["Items", "Metadata", "asked", "kinds_of", "metadata_file", "query_lines", "sources"]
__all__ += ["sources_of", "with_metadata"]

Items: TypeAlias = (
    str | Path | Sequence[Picture] | Embedding | CaptionDataset | Source | Sequence[Source]
)
"""A path or a dataset's name, pictures or captions, embeddings, a split of a dataset, sources."""
Metadata: TypeAlias = (
    pa.Table | Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]] | None
)


def sources_of(
    items: Items, metadata: Metadata, ids: Sequence[str] | None, kind: Kind, problems: Problems
) -> list[Source]:
    """What is to be added, whatever it is given as; ids and metadata are one for each item."""
    if isinstance(items, Gaussian | Points):
        if ids is None:
            raise DataError("embeddings need ids - give one for each")
        return [Embeddings(ids, items, kind, metadata=metadata_table(metadata, len(items)))]
    if isinstance(items, Path) and not items.exists():
        raise DataError(f"{items} is neither a folder nor a file - check the path")
    if isinstance(items, str | Path):
        found = sources(str(items), [kind], (), problems)
    elif isinstance(items, CaptionDataset):
        found = [images_of(items) if kind == "image" else captions_of(items)]
    elif isinstance(items, Source):
        found = [items]
    elif items and isinstance(items[0], Source):
        found = list(cast("Sequence[Source]", items))
    else:
        found = [_one_by_one(cast("Sequence[Picture]", items), ids, kind)]
    return _described(found, metadata, ids)


def sources(
    where: str, kinds: Sequence[Kind], splits: Sequence[str], problems: Problems
) -> list[Source]:
    """The items at a path, or of a dataset by name; `splits` says which, if not all.

    A folder without captions is a folder of pictures; a .txt file has a caption on each line.
    """
    if not where.strip():
        raise ConfigError(
            'items are a path or the name of a dataset - got "" - the current folder is "."'
        )
    path = Path(where)
    if path.suffix.lower() in IMAGE_SUFFIXES:
        _require_whole(where, "a picture", splits, kinds)
        return [Pictures(ImageList([path]), [str(path)])]
    if path.suffix == ".txt" and path.is_file():
        _require_whole(where, "a file of captions", splits)
        return [_lines(path)]
    if is_vectors(path) and (path.suffix != ".parquet" or _has_vectors(path)):
        _require_whole(where, "vectors", splits)
        return vector_sources(path, kinds[0])
    try:
        dataset = data.find(where)
    except ConfigError:
        if not path.is_dir():
            raise
        _require_whole(where, "a folder of pictures without captions", splits, kinds)
        return [images_below(path)]
    return _of_dataset(dataset, kinds, splits, problems)


def kinds_of(name: Literal["image", "caption", "both"]) -> list[Kind]:
    """The kinds of items of a dataset that are meant."""
    return ["image", "caption"] if name == "both" else [name]


def asked(text: str) -> Query:
    """An image where there is a file of that name, a vector where it is a .npy, else a text."""
    path = Path(text)
    if path.suffix == ".npy":
        vectors = NumpyVectors(path)
        return vectors.rows(range(len(vectors.ids)), Encoder(None), Problems()).embedding
    suffix = path.suffix.lower() in IMAGE_SUFFIXES
    return path if suffix and (" " not in text or path.is_file()) else text


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
    as_text = pyarrow.csv.ConvertOptions(column_types={"id": pa.string()})  # 007 is not 7
    readers = {
        ".csv": lambda file: pyarrow.csv.read_csv(file, convert_options=as_text),
        ".jsonl": pyarrow.json.read_json,
        ".parquet": pq.read_table,
    }
    if path.suffix not in readers:
        raise ConfigError(f"{path}: metadata are a .csv, .jsonl or .parquet file")
    try:
        found = without_row_numbers(readers[path.suffix](path))
    except (OSError, pa.ArrowException) as error:
        raise FormatError(f"{path} cannot be read - {error}") from error
    names = found.column_names
    if names.count("id") != 1:
        raise FormatError(
            f"{path} has {'two columns' if 'id' in names else 'no column'} id to say whose the "
            f"metadata are - it has {', '.join(names)} - one of them must be called id"
        )
    try:
        checked_names(name for name in names if name != "id")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return found


def with_metadata(given: Sequence[Source], table: pa.Table) -> list[Source]:
    """The sources, each item with its row of the table; items without a row get no values.

    An item of a folder is also known by its name in the folder: "a.jpg" for "photos/a.jpg"; a
    picture by itself by the name of its file.
    """
    found: list[Source] = []
    rows = _rows_by_id(table)
    columns, matched = table.drop_columns(["id"]), False
    for source in given:
        if not isinstance(source, Pictures | Captions):
            raise ConfigError("metadata of vectors stand beside them: in the Parquet file itself")
        places = [_row_of(one, source, rows) for one in source.ids]
        matched = matched or any(place is not None for place in places)
        own = metadata_table(columns.take(pa.array(places, pa.int64())), len(places))
        found.append(replace(source, metadata=with_columns(source.metadata, own)))
    if not matched:
        raise DataError(
            f"none of the {len(rows):,} ids in the metadata is one of the items - such as "
            f'"{next(iter(rows), "")}" beside "{given[0].ids[0]}"'
        )
    return found


def _rows_by_id(table: pa.Table) -> dict[str, int]:
    ids = [str(one) for one in table["id"].to_pylist()]
    for one, count in Counter(ids).items():
        if count > 1:
            raise DataError(f'the metadata have {count} rows for id "{one}" - keep one of them')
    return {one: n for n, one in enumerate(ids)}


def _row_of(one: str, source: Source, rows: Mapping[str, int]) -> int | None:
    alone = isinstance(source, Pictures) and isinstance(source.images, ImageList)
    return rows.get(one, rows.get(Path(one).name if alone else one.partition("/")[2]))


def _described(found: list[Source], metadata: Metadata, ids: Sequence[str] | None) -> list[Source]:
    """The source with these ids and metadata besides its own."""
    if metadata is None and ids is None:
        return found
    if len(found) != 1:
        raise ConfigError(
            f"ids and metadata are those of one folder, file or split - got {len(found)} of them - "
            "add each with its own"
        )
    (source,) = found
    if not isinstance(source, Embeddings | Pictures | Captions):
        raise ConfigError(
            "a file of vectors has its own ids and metadata, in columns of a Parquet file - write "
            "them there, or give the vectors as Points or a Gaussian"
        )
    count = len(source.ids)
    if ids is not None and len(ids) != count:
        raise DataError(f"{len(ids):,} ids for {count:,} items")
    known = with_columns(source.metadata, metadata_table(metadata, count))
    return [replace(source, ids=source.ids if ids is None else ids, metadata=known)]


def _one_by_one(items: Sequence[Picture], ids: Sequence[str] | None, kind: Kind) -> Source:
    """Captions, or pictures; they are called what they are, unless ids are given."""
    if ids is None and any(isinstance(item, Image.Image) for item in items):
        raise DataError("pictures in memory need ids - give one for each")
    names = [str(item) for item in items]
    return Captions(names, names) if kind == "caption" else Pictures(ImageList(items), names)


def _require_whole(
    where: str, what: str, splits: Sequence[str], kinds: Sequence[Kind] = ("image",)
) -> None:
    """An error when a part is asked for of what has no parts."""
    if splits:
        raise ConfigError(
            f'{where} has no split "{splits[0]}" - it is {what}, not a dataset - leave --split out'
        )
    if "image" not in kinds:
        raise ConfigError(
            f"{where} has no captions - it is {what} - leave --kind out, or put the captions of "
            "a.jpg into a.txt beside it"
        )


def _of_dataset(
    dataset: Dataset, kinds: Sequence[Kind], splits: Sequence[str], problems: Problems
) -> list[Source]:
    chosen = [dataset.checked_split(name) for name in splits or dataset.splits]
    if isinstance(dataset, Sidecar):
        made = {"image": _sidecar_images, "caption": _sidecar_captions}
        return [made[kind](dataset, split, problems) for split in chosen for kind in kinds]
    loaded = [dataset.load(name, problems) for name in chosen]
    taken = {"image": images_of, "caption": captions_of}
    return [taken[kind](split) for split in loaded for kind in kinds]


def _sidecar_images(dataset: Sidecar, split: str, problems: Problems) -> Source:
    """All images, also those without captions, called as in a folder where none has any."""
    found = images_below(Path(dataset.root), "" if split == "all" else split)
    count = len(found.ids)
    return replace(found, metadata=metadata_table({"split": [split] * count}, count))


def _sidecar_captions(dataset: Sidecar, split: str, problems: Problems) -> Source:
    root, noted = Path(dataset.root).resolve(), Problems()
    loaded = dataset.load(split, noted)
    for kind in noted.counts.keys() - {"image-without-captions"}:  # only captions are wanted here
        for problem in noted.kept(kind):
            problems.add(problem.kind, problem.where, problem.detail)
    names = [f"{root.name}/{loaded.images.id(n)}" for n in range(len(loaded.images))]
    ids = tuple(f"{root.name}/{one}" for one in loaded.caption_ids)
    return captions_of(replace(loaded, images=Files(root.parent, names), caption_ids=ids))


def _lines(path: Path) -> Captions:
    texts = query_lines(path)
    return Captions(texts, [f"{path}:{n}" for n in range(1, len(texts) + 1)])


def _has_vectors(path: Path) -> bool:
    try:
        names = pq.read_schema(path).names
    except (OSError, pa.ArrowException) as error:
        raise FormatError(f"{path} is not a Parquet file - {error}") from error
    return any(name in names for name in MEANS)
