"""JSON records of the studies, and the tables in documents: mean and spread over seeds, between two marks."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

DOCS = Path(__file__).parents[1] / "docs"


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean ± standard deviation; a single value stands alone."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_tables(document: Path, tables: Mapping[str, str]) -> None:
    """Put each table between `<!-- mark -->` and `<!-- /mark -->`."""
    text = document.read_text(encoding="utf-8")
    for mark, table in tables.items():
        begin, end = f"<!-- {mark} -->\n", f"<!-- /{mark} -->"
        head, rest = text.split(begin)
        text = head + begin + table + end + rest.split(end)[1]
    document.write_text(text, encoding="utf-8")


def read_record(path: Path) -> dict[str, Any]:
    """The record in a file; an empty one if there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}  # type: ignore[no-any-return]


def write_record(path: Path, record: object) -> None:
    """Write a record as JSON."""
    text = json.dumps(record, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
