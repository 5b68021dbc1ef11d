"""The study's tables in docs/results/real.md, from its record."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pcme.uncertainty.sigma import EqualBins
from studies.real.entries import STUDIES, judged_within
from studies.tables import DOCS, markdown, spread

DOCUMENT = DOCS / "results" / "real.md"
RECORD = Path(__file__).parent / "record.json"

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""The runs of each row, one per seed."""


def tables(name: str, runs: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """{mark: table} of one study."""
    plan = STUDIES[name]
    by_row = {row: [run for run in runs if run["row"] == row] for row in plan.rows}
    rows = {row: found for row, found in by_row.items() if found}
    written = {f"{name}:{split}": _retrieval_table(rows, split) for split in plan.test}
    written[f"{name}:averaged"] = _averaged_table(rows, plan.test[0])
    written[f"{name}:sigma"] = _sigma_table(rows)
    if all("within" in run for found in rows.values() for run in found):
        written[f"{name}:within"] = _within_table(rows)
    return written


def _retrieval_table(rows: Rows, split: str) -> str:
    kinds = ("r_precision", "recall@1", "recall@5", "recall@10", "map@r")
    columns = [(way, kind) for way in ("i2t", "t2i") for kind in kinds]
    rows = {row: runs for row, runs in rows.items() if not judged_within(row)}
    short = {"r_precision": "R-P", "map@r": "MAP@R"}
    titles = [f"{way} {short.get(kind, kind.replace('recall', 'R'))}" for way, kind in columns]
    lines = []
    for row, runs in rows.items():
        cells = [spread([100 * run[split][way][kind] for run in runs]) for way, kind in columns]
        lines.append([row, *cells, str(len(runs))])
    return markdown(["method", *titles, "seeds"], lines)


def _averaged_table(rows: Rows, split: str) -> str:
    columns = [(way, kind) for way in ("i2t", "t2i") for kind in ("r_precision", "recall@1")]
    short = {"r_precision": "R-P", "recall@1": "R@1"}
    head = ["method", *(f"{way} {short[kind]}" for way, kind in columns)]
    lines = []
    for row, runs in rows.items():
        found = [run for run in runs if "averaged" in run]
        if found and not judged_within(row):
            cells = [
                f"{spread([100 * run[split][way][kind] for run in found])} → "
                f"{spread([100 * run['averaged'][way][kind] for run in found])}"
                for way, kind in columns
            ]
            lines.append([row, *cells])
    return markdown(head, lines)


def _within_table(rows: Rows) -> str:
    lines = []
    for row, runs in rows.items():
        sides = ("images", "captions")
        lines.append([row, *(spread([100 * run["within"][side] for run in runs]) for side in sides)])
    return markdown(["method", "images among images", "captions among captions"], lines)


def _sigma_table(rows: Rows) -> str:
    keys = {
        "bins~recall i2t": "images, seeds apart",
        "bins~recall t2i": "captions, seeds apart",
        "rises@erased": "images wider at half erased",
        "erased rises to 0.6": "mean σ rises to 60 % erased",
        "rises@unknown": "captions wider at half `<unk>`",
        "unknown rises to 0.6": "mean σ rises to 60 % `<unk>`",
    }
    head = ["method", "images, seeds together", "captions, seeds together", *keys.values()]
    lines = []
    for row, runs in rows.items():
        found = [run["sigma"] for run in runs if run["sigma"]]
        if found:
            together = [f"{_together(found, way):.2f}" for way in ("i2t", "t2i")]
            lines.append([row, *together, *(_cell([one[key] for one in found]) for key in keys)])
    return markdown(head, lines)


def _together(found: Sequence[Mapping[str, Any]], way: str) -> float:
    """Spearman's ρ over the bins of R@1 averaged over the seeds, in which less is chance."""
    curves = [sigma[f"bins {way}"] for sigma in found]
    width, value = (np.mean([c[key] for c in curves], 0) for key in ("width", "recall@1"))
    return EqualBins(width, value).correlation


def _cell(values: Sequence[float | bool]) -> str:
    if isinstance(values[0], bool):
        return f"{sum(values)} of {len(values)}"
    return spread(values, digits=2)
