"""Writer: adds items chunk by chunk, each chunk as a whole or not at all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import pyarrow as pa

from pcme.core.checks import require_known
from pcme.core.progress import Progress
from pcme.data.problems import Problems
from pcme.errors import DataError, FormatError
from pcme.index.ann import lift_in
from pcme.index.encoder import Encoder
from pcme.index.items import Source, chunks, require_distinct
from pcme.index.rows import Origin, Rows, conformed, vectors_column
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.index.vector_files import NumpyVectors, ParquetVectors

OnConflict = Literal["skip", "replace", "error"]
"""What happens to an item whose id is in the index already."""


@dataclass(frozen=True)
class Added:
    """The outcome of `SearchIndex.add`."""

    added: int = 0
    replaced: int = 0
    present: int = 0
    """Items that were in the index already and were skipped."""

    def __add__(self, other: "Added") -> "Added":
        return Added(self.added + other.added, self.replaced + other.replaced, self.present + other.present)


@dataclass(frozen=True)
class Writer:
    """Writes to the store of an index."""

    settings: Settings
    store: Store
    encoder: Encoder

    def add(self, sources: Sequence[Source], on_conflict: OnConflict, problems: Problems, progress: Progress) -> Added:
        """Add new items, once it is clear that no id belongs to another; `progress` counts items stored for good."""
        require_known("on_conflict", on_conflict, get_args(OnConflict))
        present = self._present_ids(sources, on_conflict)
        outcome, done, total = Added(), 0, sum(len(source.ids) for source in sources)
        for source, indices in chunks(sources):
            new = [n for n in indices if on_conflict == "replace" or source.ids[n] not in present]
            rows = source.rows(new, self.encoder, problems) if new else None
            outcome += Added(present=len(indices) - len(new))
            if rows is not None:  # embeddings are made before the lock is taken
                outcome += self._write(rows, on_conflict)
            done += len(indices)
            progress("items", done, total)
        return outcome

    def _present_ids(self, sources: Sequence[Source], on_conflict: OnConflict) -> set[str]:
        """The ids that the index has already; an error where it must not have one."""
        require_distinct(sources)
        self.store.refresh()
        model = self.settings.model
        for source in sources:
            if model is not None and source.model not in (None, model.digest):
                name, other = next(iter(source.ids), ""), (source.model or "")[:12]
                raise FormatError(f'"{name}": embedded by another model, got digest {other}. Embed it with {model}.')
        present: set[str] = set()
        for source, indices in chunks(sources):
            rows = self.store.with_ids([source.ids[n] for n in indices], ["kind", "path", "text"]).to_pylist()
            stored = {row["id"]: Origin(row["kind"], row["path"], row["text"]) for row in rows}
            if on_conflict == "error" and stored:
                raise DataError(f'id: "{min(stored)}" is in the index already. Give another id, or replace it.')
            if on_conflict == "skip":
                self._require_same_items(source, indices, stored)
            present |= stored.keys()
        return present

    def _require_same_items(self, source: Source, indices: Sequence[int], stored: Mapping[str, Origin]) -> None:
        """Refuse an id that the index has for another item; of files of vectors without paths the numbers decide."""
        known = [n for n in indices if source.ids[n] in stored]
        doubtful = []
        for n, origin in zip(known, source.origins(known), strict=True):
            before = stored[source.ids[n]]
            if origin.contradicts(before):
                raise _duplicate(source.ids[n], before, origin)
            if not origin.agrees(before):
                doubtful.append(n)
        if doubtful and isinstance(source, NumpyVectors | ParquetVectors):
            self._require_same_numbers(source.rows(doubtful, self.encoder, Problems()))

    def _require_same_numbers(self, rows: Rows) -> None:
        table = self.store.with_ids(rows.ids, ["check"])
        stored = dict(zip(table["id"].to_pylist(), table["check"].to_pylist(), strict=True))
        for name, check in zip(rows.ids, self._fit(rows).checksums().tolist(), strict=True):
            if stored[name] != check:
                raise _duplicate(name, "a vector", "one of other numbers")

    def _fit(self, rows: Rows) -> Rows:
        return replace(rows, embedding=self.settings.fitted(rows.embedding, "an embedding to add"))

    def _write(self, rows: Rows, on_conflict: OnConflict) -> Added:
        rows = self._fit(rows)
        with self.store.writing():
            present = set(self.store.with_ids(rows.ids, [])["id"].to_pylist())
            if present and on_conflict == "replace":
                self.store.upsert(self._table(rows))
                return Added(added=len(rows) - len(present), replaced=len(present))
            if present:  # another process was quicker with some of them
                rows = rows.take([n for n, name in enumerate(rows.ids) if name not in present])
            if len(rows):
                self.store.append(self._table(rows))
            return Added(added=len(rows), present=len(present))

    def _table(self, rows: Rows) -> pa.Table:
        """The table to write; columns are created only once all values are known to fit."""
        first = self.store.next_seq()
        table = rows.table().append_column("seq", pa.array(np.arange(first, first + len(rows))))
        table = table.append_column("check", pa.array(rows.checksums()))
        lift = lift_in(self.settings, self.store)
        if lift is not None:
            table = table.append_column("vector", vectors_column(lift.items(rows.embedding)))
        schema = self.store.schema
        fresh = [field for field in table.schema if field.name not in schema.names]
        # a column without any value yet holds text
        new = [pa.field(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in fresh]
        table = conformed(table, pa.schema([*schema, *new], schema.metadata))
        if new:
            self.store.add_columns(new)
        return table


def _duplicate(name: str, before: object, after: object) -> DataError:
    return DataError(
        f'duplicate id "{name}": the index has {before}, got {after}. Give other ids, or add a folder that holds both; '
        "if the item has moved or changed, replace it (--replace)."
    )
