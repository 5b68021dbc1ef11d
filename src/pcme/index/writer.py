"""Writer: adds and deletes, a piece at a time, each piece whole or not at all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import pyarrow as pa

from pcme.core.progress import Progress
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.approximate import LIFT, lift_in
from pcme.index.encoder import Encoder
from pcme.index.items import Source, require_distinct
from pcme.index.lance import quoted
from pcme.index.lifts import DensityLift
from pcme.index.origins import Origin
from pcme.index.rows import Rows, checksums, embedding_of, numbers
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.index.vector_files import NumpyVectors, ParquetVectors

__all__ = ["Added", "OnConflict", "Writer"]

OnConflict = Literal["skip", "replace", "error"]
"""What to do with an item whose id is in the index already."""
IDS_AT_ONCE = 500


@dataclass(frozen=True)
class Added:
    """What an `add` has done."""

    added: int = 0
    replaced: int = 0
    present: int = 0
    """Items that were in the index already and were left as they are."""

    def __add__(self, other: "Added") -> "Added":
        return Added(
            self.added + other.added, self.replaced + other.replaced, self.present + other.present
        )


@dataclass(frozen=True)
class Writer:
    """Writes to the store of an index."""

    settings: Settings
    store: Store
    encoder: Encoder

    def add(
        self,
        sources: Sequence[Source],
        on_conflict: OnConflict,
        problems: Problems,
        progress: Progress,
    ) -> Added:
        """Add what is new, once it is clear that none of the ids is that of another item.

        `progress` counts what is in the index for good.
        """
        if on_conflict not in get_args(OnConflict):
            raise ConfigError(f'on_conflict is skip, replace or error - got "{on_conflict}"')
        there = self._there(sources, on_conflict)
        done, count, total = Added(), 0, sum(len(source.ids) for source in sources)
        for source in sources:
            for places in _pieces(source):
                done += self._piece(source, places, there, on_conflict, problems)
                count += len(places)
                progress("items", count, total)
        return done

    def delete(self, ids: Sequence[str]) -> int:
        """Remove the items with these ids; says how many there were."""
        with self.store.writing():
            return sum(
                self.store.delete(f"id IN ({', '.join(map(quoted, ids[i : i + IDS_AT_ONCE]))})")
                for i in range(0, len(ids), IDS_AT_ONCE)
            )

    def delete_where(self, where: str) -> int:
        """Remove all that match a filter."""
        if not where.strip():
            raise ConfigError("the filter is empty - to delete everything, say where='true'")
        with self.store.writing():
            return self.store.delete(where)

    def refit(self, lift: DensityLift) -> None:
        """Give every item a vector by another lift. Until that is done, searches are exact."""
        columns = ["mean", "log_sigma"]
        with self.store.writing():
            self.store.note(tuning="")
            self.store.drop_vectors()
            self.store.attach(LIFT, lift.to_bytes())
            self.store.fill_vectors(
                lift.width, columns, lambda table: lift.items(embedding_of(table))
            )

    def _there(self, sources: Sequence[Source], on_conflict: OnConflict) -> set[str]:
        """The ids that the index has already, and may have."""
        require_distinct(sources)
        self.store.version()
        found: set[str] = set()
        for source in sources:
            self._require_own_model(source)
            for places in _pieces(source):
                stored = self._stored([source.ids[n] for n in places])
                if on_conflict == "error" and stored:
                    raise DataError(
                        f'id "{min(stored)}" is in the index already - give another, or replace it'
                    )
                if on_conflict == "skip":
                    self._require_same(source, places, stored)
                found |= stored.keys()
        return found

    def _require_own_model(self, source: Source) -> None:
        own, other = self.settings.model, source.model
        if own is not None and other is not None and other != own.digest:
            raise FormatError(
                f'embeddings such as that of "{next(iter(source.ids), "")}" are of another model - '
                f"its digest is {other[:12]}, the index was made with {own} - embed the items "
                "with that one"
            )

    def _require_same(
        self, source: Source, places: Sequence[int], stored: Mapping[str, Origin]
    ) -> None:
        """An error when an id is in the index already, but as that of another item.

        Files of vectors often have neither paths nor texts: then the numbers tell.
        """
        known = [n for n in places if source.ids[n] in stored]
        doubtful = []
        for n, given in zip(known, source.origins(known), strict=True):
            before = stored[source.ids[n]]
            if given.contradicts(before):
                raise _is_another(source.ids[n], str(before), str(given))
            if not given.agrees(before):
                doubtful.append(n)
        if doubtful and isinstance(source, NumpyVectors | ParquetVectors):
            self._require_same_numbers(source.rows(doubtful, self.encoder, Problems()))

    def _require_same_numbers(self, rows: Rows) -> None:
        embedding = self.settings.fitted(rows.embedding, "an embedding to add")
        given = checksums(rows.ids, rows.kinds, *numbers(embedding)).tolist()
        table = self.store.with_ids(rows.ids, ["id", "check"])
        stored = dict(zip(table["id"].to_pylist(), table["check"].to_pylist(), strict=True))
        for one, check in zip(rows.ids, given, strict=True):
            if stored[one] != check:
                raise _is_another(one, "a vector", "one of other numbers")

    def _stored(self, ids: Sequence[str]) -> dict[str, Origin]:
        """Those of the items that the index has, and where they came from."""
        rows = self.store.with_ids(ids, ["id", "kind", "path", "text"]).to_pylist()
        return {row["id"]: Origin(row["kind"], row["path"], row["text"]) for row in rows}

    def _piece(
        self,
        source: Source,
        places: range,
        there: set[str],
        on_conflict: OnConflict,
        problems: Problems,
    ) -> Added:
        """Embeddings are made before the lock is taken, and only of what is new."""
        new = [n for n in places if on_conflict == "replace" or source.ids[n] not in there]
        rows = source.rows(new, self.encoder, problems) if new else None
        done = Added(present=len(places) - len(new))
        return done if rows is None else done + self._write(rows, on_conflict)

    def _write(self, rows: Rows, on_conflict: OnConflict) -> Added:
        fitted = self.settings.fitted(rows.embedding, "an embedding to add")
        rows = replace(rows, embedding=fitted)
        with self.store.writing():
            there = self._present(rows.ids)
            if not there:
                self.store.append(self._table(rows))
                return Added(added=len(rows))
            if on_conflict == "replace":
                self.store.upsert(self._table(rows))
                return Added(added=len(rows) - len(there), replaced=len(there))
            rest = rows.picked([n for n, one in enumerate(rows.ids) if one not in there])
            if len(rest):  # another process was quicker with some of them
                self.store.append(self._table(rest))
            return Added(added=len(rest), present=len(there))

    def _table(self, rows: Rows) -> pa.Table:
        """The rows as they are written; columns are made only once all values are known to fit."""
        new = self._new_columns(rows.metadata)
        future = self.store.schema
        for field in new:
            future = future.append(field)
        lift = lift_in(self.settings, self.store)
        vectors = None if lift is None else lift.items(rows.embedding)
        table = rows.table(future, vectors, self.store.next_number())
        if new:
            self.store.add_columns(new)
        return table

    def _present(self, ids: Sequence[str]) -> set[str]:
        """Those of the ids that the index has."""
        return set(self.store.with_ids(ids, ["id"])["id"].to_pylist())

    def _new_columns(self, metadata: pa.Table | None) -> list[pa.Field]:
        """Columns that the table has not had so far; one without any value yet holds text."""
        known = set(self.store.schema.names)
        fields = [] if metadata is None else [f for f in metadata.schema if f.name not in known]
        types = [pa.string() if pa.types.is_null(f.type) else f.type for f in fields]
        return [pa.field(f.name, kind) for f, kind in zip(fields, types, strict=True)]


def _pieces(source: Source) -> Iterator[range]:
    """The items of a source, as many as are written at once."""
    total = len(source.ids)
    return (range(n, min(total, n + source.chunk)) for n in range(0, total, source.chunk))


def _is_another(one: str, before: str, given: str) -> DataError:
    return DataError(
        f'the id "{one}" is that of another item in the index - there it is {before}, given was '
        f"{given} - add both from a folder that holds them, or give ids of their own; if it has "
        "moved or changed, replace it (--replace)"
    )
