"""Health: what an index holds and how it is searched; every row read and checked."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from pcme.core.progress import Progress, silent
from pcme.errors import PcmeError
from pcme.index.ann import AnnIndex, lift_in
from pcme.index.rows import RESERVED, checksums, embedding_of, matrix
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.index.tuning import tuning_in
from pcme.scores.lifts import Lift

NAMED = 20
"""Faults that are named; the rest is counted."""


@dataclass(frozen=True)
class Description:
    """An index in numbers."""

    path: str
    rows: int
    kinds: Mapping[str, int]
    dim: int
    spread: str
    score: str
    model: str | None
    columns: Mapping[str, str]
    """Metadata: {name: type}."""
    bytes: int | None
    parts: int
    """Fragments that the rows lie in; compact the index at more than a hundred."""
    version: int
    approximate: int
    """Rows in the ANN index; the engine scans the others."""
    effort: Mapping[str, int | float] | None
    """The tuned effort of the ANN index, and the recall that was measured."""
    worthwhile: bool
    """Whether that is good enough and faster than exact; else searches stay exact."""

    def record(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def describe(store: Store, settings: Settings) -> Description:
    """Describe an index without reading its rows."""
    version, tuning = store.refresh(), tuning_in(store)
    images, rows = store.count("kind = 'image'"), store.count()
    return Description(
        path=store.uri,
        rows=rows,
        kinds={"image": images, "caption": rows - images},
        dim=settings.dim,
        spread=settings.spread,
        score=settings.score.name,
        model=None if settings.model is None else str(settings.model),
        columns={field.name: str(field.type) for field in store.schema if field.name not in RESERVED},
        bytes=store.size(),
        parts=store.fragments(),
        version=version,
        approximate=AnnIndex(store).rows(),
        effort=None if tuning is None else {**asdict(tuning.chosen.effort), "recall": tuning.chosen.recall},
        worthwhile=tuning is not None and tuning.worthwhile,
    )


@dataclass(frozen=True)
class Verified:
    """The outcome of `verify`."""

    rows: int
    faults: tuple[str, ...] = ()
    unnamed: int = 0
    """Faults beyond those that are named."""

    @property
    def ok(self) -> bool:
        """Whether there is no fault."""
        return not self.faults


def verify(store: Store, settings: Settings, progress: Progress = silent) -> Verified:
    """Read every row: each id and seq occurs once, checksums and ANN vectors agree."""
    store.refresh()
    lift, faults = lift_in(settings, store), list[str]()
    seen: dict[str, set[object]] = {"id": set(), "seq": set()}
    rows, total = 0, store.count()
    names = ("id", "kind", "seq", "check", "mean", "log_sigma", "vector")
    try:
        for table in store.batches([n for n in names if n in store.schema.names]):
            for column, before in seen.items():
                for value in table[column].to_pylist():
                    faults += [f'{column} "{value}" occurs twice'] if value in before else []
                    before.add(value)
            faults += _damaged(table, lift)
            rows += len(table)
            progress("rows", rows, total)
    except PcmeError as error:
        faults.append(str(error))
    if rows != total and not faults:
        faults.append(f"{rows:,} rows were read, {total:,} are counted")
    return Verified(rows, tuple(faults[:NAMED]), max(0, len(faults) - NAMED))


def _damaged(table: pa.Table, lift: Lift | None) -> list[str]:
    """A fault for every row whose numbers are not those that were written."""
    ids, embedding = table["id"].to_pylist(), embedding_of(table)
    wrong = checksums(ids, table["kind"].to_pylist(), embedding) != table["check"].to_numpy()
    faults = [f'"{ids[n]}" has changed: its checksum differs' for n in np.flatnonzero(wrong)]
    if lift is None or "vector" not in table.column_names or table["vector"].null_count:
        return faults  # an interrupted tuning: no search uses its vectors
    stored, expected = matrix(table["vector"]), lift.items(embedding)
    close = np.isclose(stored, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max()).all(1)
    odd = np.flatnonzero(~close & ~wrong)
    return faults + [f'"{ids[n]}": its ANN vector does not match its embedding' for n in odd]
