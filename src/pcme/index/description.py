"""Description: what an index holds and how it is searched, without reading its rows."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pcme.index.rows import OWN
from pcme.index.settings import Settings
from pcme.index.store import Store
from pcme.index.tuning import Tuning

__all__ = ["Description", "described"]


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
    """Pieces that the rows lie in; over a hundred, compact it."""
    version: int
    approximate: int
    """Rows in the approximate index; the others are looked through one by one."""
    effort: Mapping[str, int | float] | None
    """How hard the approximate index looks, and the recall that was measured."""
    worthwhile: bool
    """Whether that is good enough and faster than exact; else searches stay exact."""

    def record(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)


def described(store: Store, settings: Settings, tuning: Tuning | None) -> Description:
    """The description of an index."""
    version = store.version()
    images = store.count("kind = 'image'")
    rows = store.count()
    chosen = None if tuning is None else tuning.chosen
    return Description(
        store.uri,
        rows,
        {"image": images, "caption": rows - images},
        settings.dim,
        settings.spread,
        settings.score.kind,
        None if settings.model is None else str(settings.model),
        {field.name: str(field.type) for field in store.schema if field.name not in OWN},
        store.size(),
        store.parts(),
        version,
        store.indexed() if store.has_ann() else 0,
        None if chosen is None else {**asdict(chosen.effort), "recall": chosen.recall},
        tuning is not None and tuning.worthwhile,
    )
