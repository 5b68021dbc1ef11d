"""The tables of docs/results/speed.md and of the README, from the rows of bench/results.json."""

import json
from collections.abc import Sequence
from pathlib import Path

from bench.measure import Row
from studies.tables import DOCS, markdown, write_tables

SPEED, README = DOCS / "results" / "speed.md", DOCS.parent / "README.md"
GROUPS = {
    "search": ("index:",),
    "evaluation": ("evaluate", "5,000 x 25,000"),
    "training": ("training:", "captions:"),
    "loader": ("loader", "aviary:"),
}
"""{table: the first words of its rows}. The other rows are those of kernels and scores."""
HEADLINES = (
    "pair_nll sampled, fwd+bwd, B=128 J=7 D=512",
    "match_prob analytic against sampled, on the same Gaussians",
    "index: exact top-10 by match_prob, one query, beside faiss flat",
)
"""The rows that the README shows."""
MARKS = {True: "yes", False: "**no**", None: "–"}


def read_rows(path: Path) -> list[Row]:
    """The rows of a record."""
    return [Row(**row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]


def speed_tables(rows: Sequence[Row]) -> dict[str, str]:
    """{mark: table} of docs/results/speed.md."""
    groups = {f"bench-{name}": _rows_with_prefix(rows, prefixes) for name, prefixes in GROUPS.items()}
    others = [row for row in rows if not any(row in group for group in groups.values())]
    return {mark: _table(group) for mark, group in {"bench-kernels": others, **groups}.items()}


def readme_tables(rows: Sequence[Row]) -> dict[str, str]:
    """{mark: table} of the README."""
    lines = [[row.what, row.ours, row.yardstick] for row in rows if row.what in HEADLINES]
    return {"bench-headlines": markdown(("measured", "ours", "yardstick"), lines)}


def write_pages(rows: Sequence[Row]) -> None:
    """Put the tables between their marks."""
    write_tables(SPEED, speed_tables(rows))
    write_tables(README, readme_tables(rows))


def _rows_with_prefix(rows: Sequence[Row], prefixes: tuple[str, ...]) -> list[Row]:
    return [row for row in rows if row.what.startswith(prefixes)]


def _table(rows: Sequence[Row]) -> str:
    head = ("measured", "ours", "yardstick", "ratio", "aim", "met", "note", "machine")
    lines = [
        (
            row.what.strip(), row.ours, row.yardstick, f"{row.ratio:.2f}", row.limit,
            MARKS[row.met], row.note.split("; t2i")[0], row.where,
        )
        for row in rows
    ]  # fmt: skip
    return markdown(head, lines)
