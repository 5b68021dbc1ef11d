"""Store: one LanceDB table, whose durability, versions, filters and compaction are the engine's.

Added here: one writer at a time (a lock file), acknowledged writes that survive a power cut, errors with a remedy.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout
from jaxtyping import Int64

from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.lance import SOURCE, engine, flush, local, quoted, translated
from pcme.index.rows import INTERNAL

TABLE = "items"
LOCK = ".writer.lock"
WAIT = 60.0
"""Seconds that a writer waits for another one."""
BATCH = 8192
"""Rows that are read at once."""
LISTED = 500
"""Ids in one filter."""


class LockedError(DataError):
    """Another process writes, and went on for longer than `WAIT`."""


class Store:
    """The table of an index, in a folder or at an object store's URI."""

    def __init__(self, uri: str, base: Any, table: Any) -> None:  # noqa: ANN401 - lancedb's own
        self.uri, self.table, self._base = uri, table, base
        self._version = -1
        self._schema: pa.Schema | None = None

    @classmethod
    def create(cls, uri: str, schema: pa.Schema) -> "Store":
        """Create an empty table; an error where one exists."""
        folder = local(uri)
        if folder is not None and folder.exists() and (folder.is_file() or any(folder.iterdir())):
            raise ConfigError(f"{uri}: exists already. Open it, or give another folder.")
        with translated(uri, "cannot be created"):
            base = engine().connect(uri)
            table = base.create_table(TABLE, schema=schema)
            table.create_index("id", config=engine().index.BTree(), name="id")
        flush(uri, 0.0)
        return cls(uri, base, table)

    @classmethod
    def open(cls, uri: str) -> "Store":
        """Open an existing table."""
        folder = local(uri)
        if folder is not None and not (folder / f"{TABLE}.lance").is_dir():
            raise FormatError(f"{uri}: not an index. Create one with `pcme index create`.")
        with translated(uri, "cannot be opened"):
            base = engine().connect(uri)
            return cls(uri, base, base.open_table(TABLE))

    def twin(self) -> "Store":
        """The same table, with a version of its own."""
        with translated(self.uri, "cannot be opened"):
            return Store(self.uri, self._base, self._base.open_table(TABLE))

    @property
    def schema(self) -> pa.Schema:
        """The columns, in the version that is read."""
        if self._schema is None:
            with translated(self.uri, "cannot be read"):
                self._schema = self.table.schema
        return self._schema

    def refresh(self) -> int:
        """Move to the newest version, which all later reads see; return its number."""
        with translated(self.uri, "cannot be read"):
            self.table.checkout_latest()
            newest = int(self.table.version)
        if newest != self._version:
            self._version, self._schema = newest, None
        return newest

    def count(self, where: str | None = None) -> int:
        """The number of rows, or of those that match a filter."""
        with self.filtering(where):
            return int(self.table.count_rows(bracketed(where)))

    def read(self, columns: Sequence[str], where: str | None = None) -> pa.Table:
        """These columns of the matching rows, in write order."""
        with self.filtering(where):
            return self._select(columns, where).to_arrow()

    def batches(self, columns: Sequence[str], where: str | None = None) -> Iterator[pa.Table]:
        """`read`, some rows at a time."""
        with self.filtering(where):
            for batch in self._select(columns, where).to_batches(batch_size=BATCH):
                yield pa.Table.from_batches([batch])

    def with_ids(self, ids: Sequence[str], columns: Sequence[str]) -> pa.Table:
        """The rows with these ids, in any order."""
        names = list(dict.fromkeys(["id", *columns]))
        with translated(self.uri, "cannot be read"):
            parts = [self._select(names, clause).to_arrow() for clause in _id_clauses(ids)]
            return pa.concat_tables(parts) if parts else self.schema.empty_table().select(names)

    def embeddings(self, seq: Int64[np.ndarray, " m"]) -> pa.Table:
        """The rows with these `seq`, ascending, with `embedding_columns`."""
        listed = ", ".join(map(str, seq.tolist()))
        return self.read(self.embedding_columns, f"seq IN ({listed})").sort_by("seq")

    @property
    def embedding_columns(self) -> list[str]:
        """The columns that ids and scores come from."""
        return [name for name in ("id", "seq", "mean", "log_sigma") if name in self.schema.names]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the writer's lock; wait up to `WAIT` seconds for another process."""
        folder = local(self.uri)
        if folder is None:  # an object store has its own atomic commits
            yield
            return
        try:
            with FileLock(folder / LOCK, timeout=WAIT):
                self.refresh()
                yield
        except Timeout as error:
            seconds = f"{WAIT:.0f} s"
            raise LockedError(
                f"{self.uri}: locked by another writer for more than {seconds}. Wait, or stop it."
            ) from error
        except PermissionError as error:
            raise ConfigError(f"{self.uri}: cannot be written, {error.strerror}. Check the permissions.") from error

    def next_seq(self) -> int:
        """A `seq` above all given so far; only while writing."""
        return int(self.table.version) << 24

    def append(self, rows: pa.Table) -> None:
        """Add new rows, all or none; they are on the disk when this returns."""
        with self.committing("add"):
            self.table.add(rows)

    def upsert(self, rows: pa.Table) -> None:
        """Add rows, replacing those with the same id; all or none."""
        with self.committing("replace"):
            merge = self.table.merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(rows)

    def delete(self, where: str) -> int:
        """Delete the matching rows; return how many there were."""
        with self.filtering(where), self.committing("delete"):
            return int(self.table.delete(bracketed(where)).num_deleted_rows)

    def delete_ids(self, ids: Sequence[str]) -> int:
        """Delete the rows with these ids; return how many there were."""
        return sum(self.delete(clause) for clause in _id_clauses(ids))

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        """Add columns, without values so far."""
        with self.committing("add columns"):
            self.table.add_columns(list(fields))

    def notes(self) -> dict[str, str]:
        """The texts that `note` stored."""
        stored = self.schema.field("mean").metadata
        return {key.decode(): value.decode() for key, value in (stored or {}).items()}

    def note(self, **values: str) -> None:
        """Store these texts with the table's next version."""
        with self.committing("note"):
            self.table.update_field_metadata({"path": "mean", "metadata": values})

    def attach(self, name: str, data: bytes) -> None:
        """Store bytes beside the rows, replacing those of this name."""
        table = pa.table({"name": [name], "data": pa.array([data], pa.large_binary())})
        with self.committing("store data"):
            self._base.create_table(name, table, mode="overwrite")

    def attachment(self, name: str) -> bytes | None:
        """The bytes stored under this name."""
        with translated(self.uri, "cannot be read"):
            if name not in self._base.list_tables().tables:
                return None
            data: bytes = self._base.open_table(name).to_arrow()["data"][0].as_py()
            return data

    def fragments(self) -> int:
        """The number of fragments; every write adds one, `optimise` merges them."""
        return int(self.table.stats()["fragment_stats"]["num_fragments"])

    def optimise(self) -> None:
        """Merge fragments, drop deleted rows and old versions.

        The engine would also change an ANN index, for the worse: see `tuning.compact`. At an object store, where no
        lock excludes other writers, files of the last days stay: they may belong to a write under way.
        """
        with self.committing("compact"):
            if local(self.uri) is None:
                self.table.optimize()
                return
            # Twice: the remains of the first are an old version only to the second.
            for _ in range(2):
                self.table.optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)

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

    @contextmanager
    def committing(self, action: str) -> Iterator[None]:
        """Translate the engine's errors, and flush to the disk what was written."""
        begin = time.time()
        with translated(self.uri, f"could not {action}, the index is unchanged"):
            yield
        self._schema = None
        flush(self.uri, begin)

    @contextmanager
    def filtering(self, where: str | None) -> Iterator[None]:
        """Translate the engine's errors; those of a filter name the columns."""
        try:
            with translated(self.uri, "cannot be read"):
                yield
        except FormatError as error:
            cause = error.__cause__
            # the engine did not understand the filter, or cannot compute it for some row (1/0)
            if where is None or not (isinstance(cause, ValueError) or "Divide by zero" in str(cause)):
                raise
            known = ", ".join(name for name in self.schema.names if name not in INTERNAL)
            reason = SOURCE.split(str(cause), maxsplit=1)[0].removeprefix("Invalid input, ")
            reason = reason.partition(" Valid fields are")[0].rstrip(".")
            raise ConfigError(
                f"filter: cannot be used, {reason}, got {where!r}. Use the columns {known} (docs/guide/search.md)."
            ) from error

    def _select(self, columns: Sequence[str], where: str | None = None) -> Any:  # noqa: ANN401
        query = self.table.search().select(list(columns))
        return query if where is None else query.where(bracketed(where))


def bracketed(where: str | None) -> str | None:
    """The filter in brackets: the engine ignores what follows the first expression it can read."""
    return None if where is None else f"({where})"


def _id_clauses(ids: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(ids), LISTED):
        yield f"id IN ({', '.join(map(quoted, ids[start : start + LISTED]))})"
