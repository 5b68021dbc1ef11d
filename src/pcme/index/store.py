"""Store: one LanceDB table. Durability, versions, filters, compaction and ANN are the engine's own.

What is added here: one writer at a time (a lock file), acknowledged writes that survive a power cut
(the engine renames, but does not flush), and errors that say what to do.
"""

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout
from jaxtyping import Float32

from pcme.atomic import sync
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.columns import INTERNAL

__all__ = ["Store", "quoted"]

TABLE = "items"
LOCK = ".writer.lock"
WAIT = 60.0
"""Seconds that a writer waits for another one."""
AT_ONCE = 8192
"""Rows of a batch that is read."""


class Store:
    """The table of an index, in a folder or at an object store's URI."""

    def __init__(self, uri: str, table: Any) -> None:  # noqa: ANN401 - lancedb has no public types
        self.uri = uri
        self._table = table
        self._version = -1
        self._schema: pa.Schema | None = None

    @classmethod
    def create(cls, uri: str, schema: pa.Schema) -> "Store":
        """A new, empty table; an error where there is one."""
        folder = _local(uri)
        if (
            folder is not None
            and folder.exists()
            and (not folder.is_dir() or any(folder.iterdir()))
        ):
            raise ConfigError(f"{uri} exists already - open it, or give another folder")
        with _translated(uri, "cannot be made"):
            table = _connect(uri).create_table(TABLE, schema=schema)
            table.create_index("id", config=_engine().index.BTree(), name="id")
        store = cls(uri, table)
        store._flush(0.0)
        return store

    @classmethod
    def open(cls, uri: str) -> "Store":
        """The table that is there."""
        folder = _local(uri)
        if folder is not None and not (folder / f"{TABLE}.lance").is_dir():
            raise FormatError(f"{uri} is not an index - make one with `pcme index create`")
        with _translated(uri, "cannot be opened"):
            return cls(uri, _connect(uri).open_table(TABLE))

    @property
    def schema(self) -> pa.Schema:
        """The columns, in the version that is read."""
        if self._schema is None:
            with _translated(self.uri, "cannot be read"):
                self._schema = self._table.schema
        return self._schema

    def version(self) -> int:
        """The number of the newest version; what is read next is read from it."""
        with _translated(self.uri, "cannot be read"):
            self._table.checkout_latest()
            found = int(self._table.version)
        if found != self._version:
            self._version, self._schema = found, None
        return found

    def count(self, where: str | None = None) -> int:
        """How many rows there are, or match."""
        with self._filtering(where):
            return int(self._table.count_rows(where))

    def read(
        self, columns: Sequence[str], where: str | None = None, limit: int | None = None
    ) -> pa.Table:
        """These columns of the rows that match, in the order they were written."""
        with self._filtering(where):
            query = self._select(columns, where)
            return (query.limit(limit) if limit else query).to_arrow()

    def batches(self, columns: Sequence[str], where: str | None = None) -> Iterator[pa.Table]:
        """The same, some rows at a time."""
        with self._filtering(where):
            for batch in self._select(columns, where).to_batches(batch_size=AT_ONCE):
                yield pa.Table.from_batches([batch])

    def with_ids(self, ids: Sequence[str], columns: Sequence[str]) -> pa.Table:
        """The rows with these ids, in any order."""
        names = list(dict.fromkeys(["id", *columns]))
        parts = [
            self.read(names, f"id IN ({', '.join(map(quoted, ids[i : i + 500]))})")
            for i in range(0, len(ids), 500)
        ]
        return pa.concat_tables(parts) if parts else self.read(names, limit=1).slice(0, 0)

    def nearest(
        self,
        vector: Float32[np.ndarray, " l"],
        columns: Sequence[str],
        *,
        metric: str,
        count: int,
        probes: int,
        where: str | None = None,
    ) -> pa.Table:
        """The rows the engine takes for the nearest, best first.

        More than `probes` partitions are looked at where a filter leaves too few rows in them.
        """
        with self._filtering(where):
            query = self._table.search(vector, vector_column_name="vector").distance_type(metric)
            query = query.minimum_nprobes(probes).maximum_nprobes(0).limit(count)
            if where is not None:
                query = query.where(where, prefilter=True)
            return query.select([*columns, "_distance"]).to_arrow()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Alone among writers; another process is waited for, `WAIT` seconds long."""
        folder = _local(self.uri)
        if folder is None:  # an object store has its own atomic commits
            yield
            return
        try:
            with FileLock(folder / LOCK, timeout=WAIT):
                self.version()
                yield
        except Timeout as error:
            raise DataError(
                f"{self.uri} is being written by another process for over {WAIT:.0f} s - wait for "
                "it, or stop it"
            ) from error
        except PermissionError as error:
            raise ConfigError(f"{self.uri} cannot be written - {error.strerror}") from error

    def next_number(self) -> int:
        """A `seq` above all that were given out; only while writing."""
        return int(self._table.version) << 24

    def append(self, rows: pa.Table) -> None:
        """New rows, all or none; on the disk when this returns."""
        with self._committing("add"):
            self._table.add(rows)

    def upsert(self, rows: pa.Table) -> None:
        """New rows, and rows in the place of those with the same id; all or none."""
        with self._committing("replace"):
            merge = self._table.merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(rows)

    def delete(self, where: str) -> int:
        """Remove the rows that match; says how many there were."""
        with self._filtering(where), self._committing("delete"):
            return int(self._table.delete(where).num_deleted_rows)

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """New columns, without values so far."""
        with self._committing("add columns"):
            self._table.add_columns(list(fields))

    def notes(self) -> dict[str, str]:
        """What is remembered beside the rows: see `note`."""
        found = self.schema.field("vector" if "vector" in self.schema.names else "mean").metadata
        return {key.decode(): value.decode() for key, value in (found or {}).items()}

    def note(self, **values: str) -> None:
        """Remember these texts with the table's next version."""
        field = "vector" if "vector" in self.schema.names else "mean"
        with self._committing("note"):
            self._table.update_field_metadata({"path": field, "metadata": values})

    def build_ann(self, metric: str, partitions: int, parts: int) -> None:
        """An IVF-PQ index of the vectors, in place of the one there was."""
        kind = _engine().index.IvfPq
        config = kind(
            distance_type=metric,
            num_partitions=partitions,
            num_sub_vectors=parts,
            max_iterations=25,
            sample_rate=64,
        )
        with self._committing("index"):
            self._table.create_index("vector", config=config, name="vector", replace=True)

    def has_ann(self) -> bool:
        """Whether the vectors have an index."""
        return any(index.name == "vector" for index in self._table.list_indices())

    def indexed(self) -> int:
        """How many rows are in it."""
        found = self._table.index_stats("vector")
        return 0 if found is None else int(found.num_indexed_rows)

    def parts(self) -> int:
        """In how many pieces the rows lie; every write adds one, `optimise` joins them."""
        return int(self._table.stats()["fragment_stats"]["num_fragments"])

    def optimise(self) -> None:
        """Join small pieces, drop deleted rows and old versions, bring indexes up to date."""
        with self._committing("compact"):
            # Twice: what the first leaves behind is an old version only to the second.
            for _ in range(2):
                self._table.optimize(
                    cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True
                )

    def size(self) -> int | None:
        """Bytes in the folder; None at an object store."""
        folder = _local(self.uri)
        if folder is None:
            return None
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    def _select(self, columns: Sequence[str], where: str | None) -> Any:  # noqa: ANN401
        query = self._table.search().select(list(columns))
        return query if where is None else query.where(where)

    @contextmanager
    def _committing(self, what: str) -> Iterator[None]:
        begin = time.time()
        with _translated(self.uri, f"could not {what}: nothing of it is in the index"):
            yield
        self._schema = None
        self._flush(begin)

    @contextmanager
    def _filtering(self, where: str | None) -> Iterator[None]:
        try:
            with _translated(self.uri, "cannot be read"):
                yield
        except FormatError as error:
            if where is None or not isinstance(error.__cause__, ValueError):
                raise
            raise self._bad_filter(where, error.__cause__) from error

    def _bad_filter(self, where: str, error: Exception) -> ConfigError:
        known = [name for name in self.schema.names if name not in INTERNAL]
        reason = str(error).removeprefix("Invalid input, ").partition(", /")[0]
        reason = reason.partition(" Valid fields are")[0]
        return ConfigError(
            f"the filter {where!r} cannot be used - {reason} - columns: {', '.join(known)}; see "
            "docs/SEARCH.md for what a filter may say"
        )

    def _flush(self, since: float) -> None:
        """Put on the disk what was written since then, and the names of it."""
        folder = _local(self.uri)
        if folder is None:
            return
        for path, _, names in os.walk(folder / f"{TABLE}.lance"):
            fresh = [n for n in names if os.stat(f"{path}/{n}").st_mtime >= since - 1]
            for name in fresh:
                sync(Path(path, name))
            if fresh:
                sync(Path(path))


def quoted(text: str) -> str:
    """A text as a filter writes it.

    >>> quoted("o'clock")
    "'o''clock'"
    """
    return "'" + text.replace("'", "''") + "'"


def _local(uri: str) -> Path | None:
    return None if "://" in uri else Path(uri)


def _engine() -> Any:  # noqa: ANN401
    """lancedb, imported when an index is first used."""
    os.environ.setdefault("LANCE_LOG", "error")  # else it warns on stderr about its own future
    try:
        import lancedb
        import lancedb.index
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"an index needs {error.name}, which is not installed - pip install 'pcme[index]'"
        ) from error
    return lancedb


def _connect(uri: str) -> Any:  # noqa: ANN401
    return _engine().connect(uri)


@contextmanager
def _translated(uri: str, what: str) -> Iterator[None]:
    """The engine's errors as ours."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, pa.ArrowException) as error:
        reason = str(error).partition(", /root/")[0]
        hint = "make room on the disk" if "os error 28" in reason else "see `pcme index verify`"
        raise FormatError(f"{uri} {what} - {reason:.400} - {hint}") from error
