"""Resolve: which items, query or metadata a path, a text or a Python object means."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
from PIL import Image

from pcme import data
from pcme.core.checks import require_known
from pcme.data.dataset import CaptionDataset
from pcme.data.formats.sidecar import Sidecar
from pcme.data.layout import Dataset
from pcme.data.problems import Problems
from pcme.data.records import IMAGE_SUFFIXES
from pcme.data.sources import Files
from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.arrow_files import with_columns, without_row_numbers
from pcme.index.encoder import Encoder, ImageLike
from pcme.index.items import Captions, Embeddings, ImageList, Images, Source, captions_of, images_below, images_of
from pcme.index.queries import Query
from pcme.index.rows import Kind, Metadata, checked_names, metadata_table
from pcme.index.vector_files import NumpyVectors, is_vectors, vector_sources

Items: TypeAlias = str | Path | Sequence[ImageLike] | Embedding | CaptionDataset | Source | Sequence[Source]
"""A path or a dataset's name, images or captions, embeddings, a split of a dataset, sources."""
SOURCE_OF: Mapping[Kind, Callable[[CaptionDataset], Source]] = {"image": images_of, "caption": captions_of}


def to_sources(
    items: Items, metadata: Metadata, ids: Sequence[str] | None, kind: Kind, problems: Problems
) -> list[Source]:
    """The sources of items given in any form; ids and metadata are one per item."""
    require_known("kind", kind, get_args(Kind))
    if isinstance(items, Gaussian | Points):
        if ids is None:
            raise DataError("ids: embeddings need ids. Give one per embedding.")
        return [Embeddings(ids, items, kind, metadata=metadata_table(metadata, len(items)))]
    if isinstance(items, Path) and not items.exists():
        raise DataError(f"{items}: neither a folder nor a file. Check the path.")
    sources: list[Source]
    if isinstance(items, str | Path):
        sources = parse_items([str(items)], kind, (), problems)
    elif isinstance(items, CaptionDataset):
        sources = [SOURCE_OF[kind](items)]
    elif isinstance(items, Source):
        sources = [items]
    elif items and isinstance(items[0], Source):
        sources = list(cast("Sequence[Source]", items))
    else:
        sources = [_listed(cast("Sequence[ImageLike]", items), ids, kind)]
    return _annotated(sources, metadata, ids)


def parse_items(
    names: Sequence[str], kind: Literal["image", "caption", "both"], splits: Sequence[str], problems: Problems
) -> list[Source]:
    """The items at paths, or of datasets by name; of all their splits, or of `splits`.

    A folder without captions is a folder of images; a .txt file has one caption per line.
    """
    kinds: list[Kind] = ["image", "caption"] if kind == "both" else [kind]
    return [source for name in names for source in _parse(name, kinds, splits, problems)]


def _parse(where: str, kinds: Sequence[Kind], splits: Sequence[str], problems: Problems) -> list[Source]:
    if not where.strip():
        raise ConfigError('items: must be a path or the name of a dataset, got "". The current folder is ".".')
    path = Path(where)
    if path.suffix.lower() in IMAGE_SUFFIXES:
        _require_no_parts(where, "an image", splits, kinds)
        return [Images(ImageList([path]), [str(path)])]
    if path.suffix == ".txt" and path.is_file():
        _require_no_parts(where, "a file of captions", splits)
        texts = read_queries(path)
        return [Captions(texts, [f"{path}:{n}" for n in range(1, len(texts) + 1)])]
    if is_vectors(path):
        _require_no_parts(where, "vectors", splits)
        return vector_sources(path, kinds[0])
    try:
        dataset = data.find(where)
    except ConfigError:
        if not path.is_dir():
            raise
        _require_no_parts(where, "a folder of images without captions", splits, kinds)
        return [images_below(path)]
    return _of_dataset(dataset, kinds, splits, problems)


def parse_query(text: str) -> Query:
    """A vector for a .npy file, an image for an image file, else the text itself."""
    path = Path(text)
    if path.suffix == ".npy":
        vectors = NumpyVectors(path)
        return vectors.rows(range(len(vectors.ids)), Encoder(None), Problems()).embedding
    is_image = path.suffix.lower() in IMAGE_SUFFIXES
    return path if is_image and (" " not in text or path.is_file()) else text


def read_queries(path: Path) -> list[str]:
    """The lines of a text file that are not empty."""
    try:
        lines = [line for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]
    except OSError as error:
        raise DataError(f"{path}: cannot be read, {error.strerror or error}.") from error
    if not lines:
        raise DataError(f"{path}: is empty. Write one text per line.")
    return lines


def read_metadata(path: Path) -> pa.Table:
    """A CSV, JSON-lines or Parquet table with a column id; the others are metadata."""
    as_text = pyarrow.csv.ConvertOptions(column_types={"id": pa.string()})  # 007 is not 7
    readers = {
        ".csv": lambda file: pyarrow.csv.read_csv(file, convert_options=as_text),
        ".jsonl": pyarrow.json.read_json,
        ".parquet": pq.read_table,
    }
    if path.suffix not in readers:
        raise ConfigError(f"{path}: must be a .csv, .jsonl or .parquet file of metadata.")
    try:
        table = without_row_numbers(readers[path.suffix](path))
    except (OSError, pa.ArrowException) as error:
        raise FormatError(f"{path}: cannot be read ({error}).") from error
    names = table.column_names
    if names.count("id") != 1:
        raise FormatError(f'{path}: needs one column "id", got {", ".join(names)}. Rename the column of the ids.')
    try:
        checked_names(name for name in names if name != "id")
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
    return table


def with_metadata(sources: Sequence[Source], table: pa.Table) -> list[Source]:
    """The sources with their rows of the table; items without a row get no values.

    An item of a folder is also known by its name in the folder ("a.jpg" for "photos/a.jpg"), an image given by itself
    by the name of its file.
    """
    names = [str(name) for name in table["id"].to_pylist()]
    for name, count in Counter(names).items():
        if count > 1:
            raise DataError(f'metadata: {count} rows have the id "{name}". Keep one of them.')
    row_of = {name: row for row, name in enumerate(names)}
    columns, matched, annotated = table.drop_columns(["id"]), False, list[Source]()
    for source in sources:
        if not isinstance(source, Images | Captions):
            raise ConfigError("metadata: those of vectors stand in their own Parquet file. Add them there.")
        rows = [row_of.get(name, row_of.get(_short_name(name, source))) for name in source.ids]
        matched = matched or any(row is not None for row in rows)
        more = metadata_table(columns.take(pa.array(rows, pa.int64())), len(rows))
        annotated.append(replace(source, metadata=with_columns(source.metadata, more)))
    if not matched:
        first, item = next(iter(row_of), ""), sources[0].ids[0]
        raise DataError(f'metadata: none of the {len(row_of):,} ids is one of the items, got "{first}" for "{item}".')
    return annotated


def _short_name(name: str, source: Source) -> str:
    alone = isinstance(source, Images) and isinstance(source.images, ImageList)
    return Path(name).name if alone else name.partition("/")[2]


def _annotated(sources: list[Source], metadata: Metadata, ids: Sequence[str] | None) -> list[Source]:
    """The source with these ids, and these metadata besides its own."""
    if metadata is None and ids is None:
        return sources
    if len(sources) != 1:
        raise ConfigError(
            f"ids and metadata: must be those of one folder, file or split, got {len(sources)}. Add each."
        )
    (source,) = sources
    if not isinstance(source, Embeddings | Images | Captions):
        raise ConfigError("ids and metadata: a file of vectors has its own. Write them to columns of a Parquet file.")
    count = len(source.ids)
    if ids is not None and len(ids) != count:
        raise DataError(f"ids: must be one per item ({count:,}), got {len(ids):,}.")
    more = with_columns(source.metadata, metadata_table(metadata, count))
    return [replace(source, ids=source.ids if ids is None else ids, metadata=more)]


def _listed(items: Sequence[ImageLike], ids: Sequence[str] | None, kind: Kind) -> Source:
    """Captions, or images; their paths or texts are their ids, unless ids are given."""
    if ids is None and any(isinstance(item, Image.Image) for item in items):
        raise DataError("ids: images in memory need ids. Give one per image.")
    names = [str(item) for item in items]
    return Captions(names, names) if kind == "caption" else Images(ImageList(items), names)


def _require_no_parts(where: str, what: str, splits: Sequence[str], kinds: Sequence[Kind] = ("image",)) -> None:
    """Refuse a split or a kind of items that have neither."""
    if splits:
        raise ConfigError(f'{where}: has no split "{splits[0]}", it is {what}, not a dataset. Leave --split out.')
    if "image" not in kinds:
        raise ConfigError(f"{where}: has no captions, it is {what}. Leave --kind out, or put captions into a.txt.")


def _of_dataset(dataset: Dataset, kinds: Sequence[Kind], splits: Sequence[str], problems: Problems) -> list[Source]:
    names = [dataset.checked_split(name) for name in splits or dataset.splits]
    if isinstance(dataset, Sidecar):
        read = {"image": _sidecar_images, "caption": _sidecar_captions}
        return [read[kind](dataset, name, problems) for name in names for kind in kinds]
    loaded = [dataset.load(name, problems) for name in names]
    return [SOURCE_OF[kind](split) for split in loaded for kind in kinds]


def _sidecar_images(dataset: Sidecar, split: str, problems: Problems) -> Source:
    """All images, also those without captions, with ids as in a folder where none has any."""
    source = images_below(Path(dataset.root), "" if split == "all" else split)
    count = len(source.ids)
    return replace(source, metadata=metadata_table({"split": [split] * count}, count))


def _sidecar_captions(dataset: Sidecar, split: str, problems: Problems) -> Source:
    root, noted = Path(dataset.root).resolve(), Problems()
    loaded = dataset.load(split, noted)
    for kind in noted.counts.keys() - {"image-without-captions"}:  # only captions are asked for
        for problem in noted.kept(kind):
            problems.add(problem.kind, problem.where, problem.detail)
    names = [f"{root.name}/{loaded.images.id(n)}" for n in range(len(loaded.images))]
    ids = tuple(f"{root.name}/{name}" for name in loaded.caption_ids)
    return captions_of(replace(loaded, images=Files(root.parent, names), caption_ids=ids))
