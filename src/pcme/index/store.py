"""Store: one LanceDB table. Durability, versions, filters, compaction and ANN are the engine's own.

What is added here: one writer at a time (a lock file), acknowledged writes that survive a power cut
(the engine renames, but does not flush), and errors that say what to do.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout
from jaxtyping import Float32

from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.lance import SOURCE, engine, flush, local, quoted, translated
from pcme.index.rows import INTERNAL, vectors_column

__all__ = ["Store"]

TABLE = "items"
LOCK = ".writer.lock"
WAIT = 60.0
"""Seconds that a writer waits for another one."""
PIECE = 16
"""Numbers of a vector that product quantisation replaces by one byte."""
AT_ONCE = 8192
"""Rows of a batch that is read."""


class Store:
    """The table of an index, in a folder or at an object store's URI."""

    def __init__(self, uri: str, base: Any, table: Any) -> None:  # noqa: ANN401 - lancedb's own
        self.uri = uri
        self._base, self._table = base, table
        self._version = -1
        self._schema: pa.Schema | None = None

    @classmethod
    def create(cls, uri: str, schema: pa.Schema) -> "Store":
        """A new, empty table; an error where there is one."""
        folder = local(uri)
        if folder is not None and folder.exists() and (folder.is_file() or any(folder.iterdir())):
            raise ConfigError(f"{uri} exists already - open it, or give another folder")
        with translated(uri, "cannot be made"):
            base = engine().connect(uri)
            table = base.create_table(TABLE, schema=schema)
            table.create_index("id", config=engine().index.BTree(), name="id")
        store = cls(uri, base, table)
        flush(uri, 0.0)
        return store

    @classmethod
    def open(cls, uri: str) -> "Store":
        """The table that is there."""
        folder = local(uri)
        if folder is not None and not (folder / f"{TABLE}.lance").is_dir():
            raise FormatError(f"{uri} is not an index - make one with `pcme index create`")
        with translated(uri, "cannot be opened"):
            base = engine().connect(uri)
            return cls(uri, base, base.open_table(TABLE))

    def twin(self) -> "Store":
        """The same table with a version of its own."""
        with translated(self.uri, "cannot be opened"):
            return Store(self.uri, self._base, self._base.open_table(TABLE))

    @property
    def schema(self) -> pa.Schema:
        """The columns, in the version that is read."""
        if self._schema is None:
            with translated(self.uri, "cannot be read"):
                self._schema = self._table.schema
        return self._schema

    def version(self) -> int:
        """The number of the newest version; what is read next is read from it."""
        with translated(self.uri, "cannot be read"):
            self._table.checkout_latest()
            found = int(self._table.version)
        if found != self._version:
            self._version, self._schema = found, None
        return found

    def count(self, where: str | None = None) -> int:
        """How many rows there are, or match."""
        with self._filtering(where):
            return int(self._table.count_rows(_whole(where)))

    def read(
        self, columns: Sequence[str], where: str | None = None, limit: int | None = None
    ) -> pa.Table:
        """These columns of the rows that match, in the order they were written."""
        with self._filtering(where):
            return self._read(columns, where, limit)

    def batches(self, columns: Sequence[str], where: str | None = None) -> Iterator[pa.Table]:
        """The same, some rows at a time."""
        with self._filtering(where):
            for batch in self._select(columns, where).to_batches(batch_size=AT_ONCE):
                yield pa.Table.from_batches([batch])

    def with_ids(self, ids: Sequence[str], columns: Sequence[str]) -> pa.Table:
        """The rows with these ids, in any order."""
        names = list(dict.fromkeys(["id", *columns]))
        with translated(self.uri, "cannot be read"):
            parts = [
                self._read(names, f"id IN ({', '.join(map(quoted, ids[i : i + 500]))})")
                for i in range(0, len(ids), 500)
            ]
            return pa.concat_tables(parts) if parts else self._read(names, limit=1).slice(0, 0)

    def nearest(
        self,
        vector: Float32[np.ndarray, " l"],
        columns: Sequence[str],
        *,
        count: int,
        probes: int,
        where: str | None = None,
    ) -> pa.Table:
        """The rows the engine takes for the nearest, best first.

        More than `probes` partitions are searched where a filter leaves too few rows in them.
        """
        with self._filtering(where):
            query = self._table.search(vector, vector_column_name="vector").distance_type("l2")
            query = query.select([*columns, "_distance"]).limit(count).nprobes(probes)
            if where is not None:
                query = query.where(_whole(where), prefilter=True).maximum_nprobes(0)
            return query.to_arrow()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Alone among writers; another process is waited for, `WAIT` seconds long."""
        folder = local(self.uri)
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
            return int(self._table.delete(_whole(where)).num_deleted_rows)

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """New columns, without values so far."""
        with self._committing("add columns"):
            self._table.add_columns(list(fields))

    def notes(self) -> dict[str, str]:
        """What is remembered beside the rows: see `note`."""
        found = self.schema.field("mean").metadata
        return {key.decode(): value.decode() for key, value in (found or {}).items()}

    def note(self, **values: str) -> None:
        """Remember these texts with the table's next version."""
        with self._committing("note"):
            self._table.update_field_metadata({"path": "mean", "metadata": values})

    def build_ann(self, partitions: int, codes: Literal["product", "none"]) -> None:
        """An approximate index of the vectors, in place of the one there was."""
        kinds = engine().index
        common = {
            "distance_type": "l2",
            "num_partitions": partitions,
            "max_iterations": 25,
            "sample_rate": 64,
        }
        width = self.schema.field("vector").type.list_size
        config = (
            kinds.IvfPq(**common, num_sub_vectors=width // PIECE)
            if codes == "product"
            else kinds.IvfFlat(**common)
        )
        with self._committing("index"):
            self._table.create_index("vector", config=config, name="vector", replace=True)

    def drop_ann(self) -> None:
        """Remove the approximate index, if there is one; only while writing."""
        if self.has_ann():
            with self._committing("drop the index"):
                self._table.drop_index("vector")

    def drop_vectors(self) -> None:
        """Remove the vectors and their index, if there are any; only while writing."""
        self.drop_ann()
        if "vector" in self.schema.names:
            with self._committing("drop the vectors"):
                self._table.drop_columns(["vector"])

    def fill_vectors(
        self,
        width: int,
        columns: Sequence[str],
        vectors: Callable[[pa.Table], Float32[np.ndarray, "n l"]],
    ) -> None:
        """Give every row a vector, made from some of its columns; only while writing."""
        self.add_columns([pa.field("vector", pa.list_(pa.float32(), width))])
        for table in self.batches(["id", *columns]):
            found = pa.table({"id": table["id"], "vector": vectors_column(vectors(table))})
            with self._committing("write vectors"):
                self._table.merge_insert("id").when_matched_update_all().execute(found)
        self.optimise()

    def attach(self, name: str, data: bytes) -> None:
        """Keep bytes beside the rows, in place of what had this name."""
        table = pa.table({"name": [name], "data": pa.array([data], pa.large_binary())})
        with self._committing("keep data"):
            self._base.create_table(name, table, mode="overwrite")

    def attached(self, name: str) -> bytes | None:
        """What was kept under this name."""
        with translated(self.uri, "cannot be read"):
            if name not in self._base.list_tables().tables:
                return None
            found: bytes = self._base.open_table(name).to_arrow()["data"][0].as_py()
            return found

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
        """Join small pieces, drop deleted rows and old versions.

        The engine would also change an approximate index, and not for the better: see
        `tuner.compacted`. At an object store, where no lock says that nobody else writes, files of
        the last days stay: they may be part of a write under way.
        """
        with self._committing("compact"):
            if local(self.uri) is None:
                self._table.optimize()
                return
            # Twice: what the first leaves behind is an old version only to the second.
            for _ in range(2):
                self._table.optimize(
                    cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True
                )

    def size(self) -> int | None:
        """Bytes in the folder; None at an object store."""
        folder = local(self.uri)
        if folder is None:
            return None
        total = 0
        for path in folder.rglob("*"):
            with suppress(FileNotFoundError):  # another process compacts
                total += path.stat().st_size if path.is_file() else 0
        return total

    def _read(
        self, columns: Sequence[str], where: str | None = None, limit: int | None = None
    ) -> pa.Table:
        query = self._select(columns, where)
        return (query.limit(limit) if limit else query).to_arrow()

    def _select(self, columns: Sequence[str], where: str | None) -> Any:  # noqa: ANN401
        query = self._table.search().select(list(columns))
        return query if where is None else query.where(_whole(where))

    @contextmanager
    def _committing(self, what: str) -> Iterator[None]:
        begin = time.time()
        with translated(self.uri, f"could not {what}, and is as it was before"):
            yield
        self._schema = None
        flush(self.uri, begin)

    @contextmanager
    def _filtering(self, where: str | None) -> Iterator[None]:
        try:
            with translated(self.uri, "cannot be read"):
                yield
        except FormatError as error:
            cause = error.__cause__
            if where is None or cause is None or not _of_filter(cause):
                raise
            raise self._bad_filter(where, cause) from error

    def _bad_filter(self, where: str, error: BaseException) -> ConfigError:
        known = [name for name in self.schema.names if name not in INTERNAL]
        reason = SOURCE.split(str(error), maxsplit=1)[0].removeprefix("Invalid input, ")
        reason = reason.partition(" Valid fields are")[0]
        return ConfigError(
            f"the filter {where!r} cannot be used - {reason} - columns: {', '.join(known)}; see "
            "docs/guide/search.md for what a filter may say"
        )


def _whole(where: str | None) -> str | None:
    """The filter in brackets: the engine ignores what follows the first expression it can read."""
    return None if where is None else f"({where})"


def _of_filter(error: BaseException) -> bool:
    """Whether a filter was not understood, or cannot be computed for some row (1/0)."""
    return isinstance(error, ValueError) or "Divide by zero" in str(error)
