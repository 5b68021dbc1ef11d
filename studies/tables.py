"""Tables in documents: mean and spread of several seeds, written between two marks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean ± standard deviation; a single value stands alone."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


def between_marks(document: Path, name: str, table: str) -> None:
    """Put the table between `<!-- name -->` and `<!-- /name -->`."""
    text = document.read_text(encoding="utf-8")
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    head, rest = text.split(begin)
    document.write_text(head + begin + table + end + rest.split(end)[1], encoding="utf-8")
