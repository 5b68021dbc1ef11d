"""Checking: every row read and compared with what it must be."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pcme.core.progress import Progress, silent
from pcme.errors import PcmeError
from pcme.index.lifts import Lift
from pcme.index.rows import checksums, embedding_of, matrix, numbers
from pcme.index.store import Store

__all__ = ["Verified", "verify"]

NAMED = 20
"""Faults that are named; beyond it they are counted."""


@dataclass(frozen=True)
class Verified:
    """What was found: nothing, or what is wrong, by name."""

    rows: int
    faults: tuple[str, ...] = ()
    unnamed: int = 0
    """Faults beyond those that are named."""

    @property
    def ok(self) -> bool:
        """Whether all is well."""
        return not self.faults


def verify(store: Store, lift: Lift | None, progress: Progress = silent) -> Verified:
    """Read every row: ids and numbers are there once, checksums and the engine's vectors agree."""
    faults: list[str] = []
    seen_ids: set[object] = set()
    seen_numbers: set[object] = set()
    rows, total = 0, store.count()
    names = ("id", "kind", "seq", "check", "mean", "log_sigma", "vector")
    try:
        for table in store.batches([n for n in names if n in store.schema.names]):
            ids, seq = table["id"].to_pylist(), table["seq"].to_pylist()
            faults += [f'id "{one}" is there twice' for one in _again(ids, seen_ids)]
            faults += [f"number {one} is there twice" for one in _again(seq, seen_numbers)]
            faults += _damaged(table, lift)
            rows += len(table)
            progress("rows", rows, total)
    except PcmeError as error:
        faults.append(str(error))
    if rows != total and not faults:
        faults.append(f"{rows:,} rows were read, {total:,} are counted")
    return Verified(rows, tuple(faults[:NAMED]), max(0, len(faults) - NAMED))


def _again(values: list[object], seen: set[object]) -> list[object]:
    """Those that were there before; all of them are then."""
    found = []
    for value in values:
        if value in seen:
            found.append(value)
        seen.add(value)
    return found


def _damaged(table: pa.Table, lift: Lift | None) -> list[str]:
    """Rows whose numbers are not those that were written."""
    ids, embedding = table["id"].to_pylist(), embedding_of(table)
    mean, log_sigma = numbers(embedding)
    wrong = checksums(ids, table["kind"].to_pylist(), mean, log_sigma) != table["check"].to_numpy()
    faults = [f'"{ids[n]}" has changed: its checksum differs' for n in np.flatnonzero(wrong)]
    if lift is None or "vector" not in table.column_names or table["vector"].null_count:
        return faults  # a tuning that was cut short: no search uses what it left
    stored, expected = matrix(table["vector"]), lift.items(embedding)
    close = np.isclose(stored, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max()).all(1)
    return faults + [
        f'"{ids[n]}" is searched by a vector that is not its own'
        for n in np.flatnonzero(~close & ~wrong)
    ]
