"""AnnIndex: the engine's approximate nearest neighbours over the column `vector`."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from jaxtyping import Float32

from pcme.index.lance import engine
from pcme.index.rows import embedding_of, vectors_column
from pcme.index.settings import Settings
from pcme.index.store import Store, bracketed
from pcme.scores.lifts import Codes, DensityLift, Lift

LIFT = "lift"
"""The name under which a fitted lift is stored beside the rows."""
PIECE = 16
"""Numbers of a vector that product quantisation replaces by one byte."""


def lift_in(settings: Settings, store: Store) -> Lift | None:
    """The lift that made the vectors of a store; None where it has no vectors."""
    if "vector" not in store.schema.names:
        return None
    ann = settings.score.ann(settings.dim)
    return ann.lift(store.attachment(LIFT)) if ann else None


@dataclass(frozen=True)
class AnnIndex:
    """The ANN index of a store's vectors; it is changed only while `store.writing()`."""

    store: Store

    def exists(self) -> bool:
        """Whether the vectors have an ANN index."""
        return any(index.name == "vector" for index in self.store.table.list_indices())

    def rows(self) -> int:
        """The number of rows in the ANN index; the engine scans the others."""
        stats = self.store.table.index_stats("vector") if self.exists() else None
        return 0 if stats is None else int(stats.num_indexed_rows)

    def nearest(
        self, vector: Float32[np.ndarray, " l"], columns: Sequence[str], count: int, probes: int, where: str | None
    ) -> pa.Table:
        """The rows that the engine finds nearest to a vector, nearest first.

        More than `probes` partitions are searched where a filter leaves too few rows in them.
        """
        with self.store.filtering(where):
            query = self.store.table.search(vector, vector_column_name="vector").distance_type("l2")
            query = query.select([*columns, "_distance"]).limit(count).nprobes(probes)
            if where is not None:
                query = query.where(bracketed(where), prefilter=True).maximum_nprobes(0)
            return query.to_arrow()

    def build(self, partitions: int, codes: Codes) -> None:
        """Build the ANN index, replacing an existing one."""
        kinds = engine().index
        common = {"distance_type": "l2", "num_partitions": partitions, "max_iterations": 25, "sample_rate": 64}
        if codes == "product":
            width = self.store.schema.field("vector").type.list_size
            config = kinds.IvfPq(**common, num_sub_vectors=width // PIECE)
        else:
            config = kinds.IvfFlat(**common)
        with self.store.committing("build the ANN index"):
            self.store.table.create_index("vector", config=config, name="vector", replace=True)

    def drop(self) -> None:
        """Remove the ANN index, if there is one."""
        if self.exists():
            with self.store.committing("drop the ANN index"):
                self.store.table.drop_index("vector")

    def replace_vectors(self, lift: DensityLift) -> None:
        """Give every row the vector of another lift, and store the lift; drops the ANN index."""
        self.drop()
        if "vector" in self.store.schema.names:
            with self.store.committing("drop the vectors"):
                self.store.table.drop_columns(["vector"])
        self.store.attach(LIFT, lift.to_bytes())
        self.store.add_columns([pa.field("vector", pa.list_(pa.float32(), lift.width))])
        for table in self.store.batches(["id", "mean", "log_sigma"]):
            vectors = vectors_column(lift.items(embedding_of(table)))
            update = pa.table({"id": table["id"], "vector": vectors})
            with self.store.committing("write vectors"):
                self.store.table.merge_insert("id").when_matched_update_all().execute(update)
        self.store.optimise()
