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
    study = STUDIES[name]
    by_row = {row: [run for run in runs if run["row"] == row] for row in study.rows}
    rows = {row: row_runs for row, row_runs in by_row.items() if row_runs}
    by_mark = {f"{name}:{split}": _retrieval_table(rows, split) for split in study.test}
    by_mark[f"{name}:averaged"] = _averaged_table(rows, study.test[0])
    by_mark[f"{name}:sigma"] = _sigma_table(rows)
    if all("within" in run for row_runs in rows.values() for run in row_runs):
        by_mark[f"{name}:within"] = _within_table(rows)
    return by_mark


def _retrieval_table(rows: Rows, split: str) -> str:
    kinds = ("r_precision", "recall@1", "recall@5", "recall@10", "map@r")
    columns = [(direction, kind) for direction in ("i2t", "t2i") for kind in kinds]
    rows = {row: runs for row, runs in rows.items() if not judged_within(row)}
    short = {"r_precision": "R-P", "map@r": "MAP@R"}
    titles = [f"{direction} {short.get(kind, kind.replace('recall', 'R'))}" for direction, kind in columns]
    lines = []
    for row, runs in rows.items():
        cells = [spread([100 * run[split][direction][kind] for run in runs]) for direction, kind in columns]
        lines.append([row, *cells, str(len(runs))])
    return markdown(["method", *titles, "seeds"], lines)


def _averaged_table(rows: Rows, split: str) -> str:
    columns = [(direction, kind) for direction in ("i2t", "t2i") for kind in ("r_precision", "recall@1")]
    short = {"r_precision": "R-P", "recall@1": "R@1"}
    head = ["method", *(f"{direction} {short[kind]}" for direction, kind in columns)]
    lines = []
    for row, runs in rows.items():
        averaged = [run for run in runs if "averaged" in run]
        if averaged and not judged_within(row):
            cells = [
                f"{spread([100 * run[split][direction][kind] for run in averaged])} → "
                f"{spread([100 * run['averaged'][direction][kind] for run in averaged])}"
                for direction, kind in columns
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
        sigmas = [run["sigma"] for run in runs if run["sigma"]]
        if sigmas:
            together = [f"{_seeds_together(sigmas, direction):.2f}" for direction in ("i2t", "t2i")]
            lines.append([row, *together, *(_cell([sigma[key] for sigma in sigmas]) for key in keys)])
    return markdown(head, lines)


def _seeds_together(sigmas: Sequence[Mapping[str, Any]], direction: str) -> float:
    """Spearman's ρ over the bins after R@1 is averaged over the seeds, which leaves less noise."""
    curves = [sigma[f"bins {direction}"] for sigma in sigmas]
    width, value = (np.mean([c[key] for c in curves], 0) for key in ("width", "recall@1"))
    return EqualBins(width, value).correlation


def _cell(values: Sequence[float | bool]) -> str:
    if isinstance(values[0], bool):
        return f"{sum(values)} of {len(values)}"
    return spread(values, digits=2)
