"""The paper's values, typed from its LaTeX, table by table.

A `Source` is one table, under the label it has in the LaTeX. Rows have the paper's names, columns the names that
metrics have here. Where the paper contradicts itself, the supplement is taken: Table 3 has PMRP 41.8 and 43.6 (t2i, 1K,
PVSE with K = 1 and 2) and 45.0 (i2t, 1K, PCME) where Table E.4 has 41.9, 43.7 and 45.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pcme.errors import ConfigError

Values = tuple[float | None, ...]
RETRIEVAL = ("i2t r_precision", "i2t recall@1", "t2i r_precision", "t2i recall@1")
PRECISION = ("i2t r_precision", "t2i r_precision")


@dataclass(frozen=True)
class Source:
    """A table of the paper: {row: values in the order of the columns}; None where it has a dash.

    >>> CUB_UNSEEN.value("PCME", "i2t r_precision")
    26.28
    """

    label: str
    """The label in the LaTeX."""
    name: str
    """The name for readers."""
    columns: tuple[str, ...]
    rows: Mapping[str, Values]
    digits: int = 2
    """After the point, as the paper prints them."""
    split: str = ""
    """The split that its rows are of, as in "cub/test", where it is of one."""
    backbone: str = ""

    def value(self, row: str, column: str) -> float | None:
        """The value in a row and column; None where the table has no such column, or a dash."""
        if row not in self.rows:
            raise ConfigError(f'{self.name}: no row "{row}". Known: {", ".join(self.rows)}.')
        return self.rows[row][self.columns.index(column)] if column in self.columns else None


def _half_of(table: str, half: int) -> dict[str, Values]:
    """{row: its values in one half of a table in text}."""
    lines = (line.split("|") for line in table.strip().splitlines())
    return {
        name.strip(): tuple(None if x == "–" else float(x) for x in halves[half].split()) for name, *halves in lines
    }


SCORES = Source(
    "tab:supp-retrieval-strateiges-full",
    "Table 1, in full Table E.1",
    PRECISION,
    {
        "μ only, mean": (24.70, 25.64),
        "mean": (26.14, 26.67),
        "KL": (21.99, 20.92),
        "JS": (25.06, 25.55),
        "ELK": (25.33, 25.87),
        "Bhattacharyya": (24.93, 25.27),
        "2-Wasserstein": (26.16, 26.69),
        "average L2": (26.11, 26.64),
        "match prob": (26.28, 26.77),
    },
)

_CUB = """
VSE0           | 22.35 44.19 22.57 32.71 | 19.85 40.88 18.72 25.51
PVSE K=1       | 22.65 43.11 22.78 33.49 | 19.69 40.65 18.72 25.58
PVSE K=2       | 21.62 44.05 21.49 31.31 | 18.84 41.45 17.72 24.99
PVSE K=4       | 21.12 40.51 20.90 30.94 | 18.31 38.08 17.21 23.54
PVSE K=1, HNM  | 22.34 40.88 20.51 31.71 | 18.98 38.77 18.23 23.49
PVSE K=2, HNM  | 19.67 47.29 21.16 27.98 | 17.62 44.24 17.71 22.78
PVSE K=4, HNM  | 18.38 47.76 19.94 34.39 | 17.47 44.98 17.44 26.19
PCME μ only    | 24.70 46.38 25.64 35.50 | 20.65 42.70 20.16 26.94
PCME           | 26.28 46.92 26.77 35.22 | 20.87 43.10 20.37 26.47
"""
"""Rows: unseen classes | new images of seen classes, in the order of RETRIEVAL."""

CUB_UNSEEN = Source(
    "tab:supp-cub-comparison-full",
    "Table 2, in full Table E.2",
    RETRIEVAL,
    _half_of(_CUB, 0),
    split="cub/test",
    backbone="ResNet-50",
)

CUB_SEEN = replace(
    CUB_UNSEEN, label="tab:supp-cub-comparison-full-seen", name="Table E.3", rows=_half_of(_CUB, 1), split="cub/seen"
)


def _half(i2t: float | None, t2i: float | None) -> float | None:
    return None if i2t is None or t2i is None else (i2t + t2i) / 2


MINING = Source(
    "fig:hmm_study",
    "Fig. E.2: means of both ways, from Table E.2",
    ("both r_precision", "both recall@1"),
    {
        name: (_half(values[0], values[2]), _half(values[1], values[3]))
        for name, values in CUB_UNSEEN.rows.items()
        if name.startswith("PVSE")
    },
    digits=1,
)

_RECALLS = ("pmrp", "recall@1", "recall@5", "recall@10")
_1K, _5K = (tuple(f"{side} {prefix}{name}" for side in ("i2t", "t2i") for name in _RECALLS) for prefix in ("1k ", ""))

_COCO = """
VSE++          |    – 64.6 90.0 95.7    – 52.0 84.3 92.0 |    – 41.3 71.1 81.2    – 30.3 59.4 72.4
PVSE K=1       | 40.3 66.7 91.0 96.2 41.9 53.5 85.1 92.7 | 29.3 41.7 73.0 83.0 30.1 30.6 61.4 73.6
PVSE K=2       | 42.8 69.2 91.6 96.6 43.7 55.2 86.5 93.7 | 31.8 45.2 74.3 84.5 32.0 32.4 63.0 75.0
PVSE K=4       | 41.5 68.0 91.9 96.6 42.7 54.1 85.5 92.9 | 30.5 43.0 72.8 83.6 31.0 31.2 61.5 74.4
PVSE K=1 + SHM | 41.6 66.1 91.4 96.4 42.4 53.6 85.5 93.0 | 30.6 41.1 71.6 82.7 30.8 30.9 60.8 73.7
PVSE K=2 + SHM | 39.0 65.1 90.9 96.5 39.4 53.1 85.4 93.0 | 28.1 40.7 70.8 81.9 27.8 29.9 60.4 73.4
VSRN           | 41.2 76.2 94.8 98.2 42.4 62.8 89.7 95.1 | 29.7 53.0 81.1 89.4 29.9 40.5 70.6 81.1
VSRN + AOQ     | 44.7 77.5 95.5 98.6 45.6 63.5 90.5 95.8 | 33.0 55.1 83.3 90.8 33.5 41.1 71.5 82.0
PCME μ only    | 45.0 68.0 92.0 96.2 45.9 54.6 86.3 93.8 | 34.0 43.5 73.1 84.2 34.3 31.7 62.2 74.9
PCME           | 45.1 68.8 91.6 96.7 46.0 54.6 86.3 93.8 | 34.1 44.2 73.8 83.6 34.4 31.9 62.1 74.5
"""
"""Rows: five folds of 1K images | all 5K images, in the order of the columns."""

COCO_1K = Source("tab:supp-coco-full-1k", "Table 3, in full Table E.4", _1K, _half_of(_COCO, 0), digits=1)

COCO_5K = Source(
    "tab:supp-coco-full-5k",
    "Table 3, in full Table E.5",
    _5K,
    _half_of(_COCO, 1),
    digits=1,
    split="coco/test",
    backbone="ResNet-152",
)

_SHOWN = [column for column in (*_1K, *_5K) if column.endswith(("pmrp", "recall@1"))]
_CONTRADICTIONS = {("PVSE K=1", "t2i 1k pmrp"): 41.8, ("PVSE K=2", "t2i 1k pmrp"): 43.6, ("PCME", "i2t 1k pmrp"): 45.0}
"""Cells of Table 3 that differ from Table E.4."""


def _cell(row: str, column: str) -> float | None:
    table = COCO_1K if column in _1K else COCO_5K
    return _CONTRADICTIONS.get((row, column), table.value(row, column))


TABLE_3 = Source(
    "tab:coco",
    "Table 3",
    tuple(_SHOWN),
    {
        row: tuple(_cell(row, column) for column in _SHOWN)
        for row in COCO_5K.rows
        if row != "PVSE K=4" and "SHM" not in row
    },
    digits=1,
)

OF_SPLIT = {table.split: table for table in (CUB_UNSEEN, CUB_SEEN, COCO_5K)}
"""The tables that are of one split, by its name."""

REGULARISATION = Source(
    "tab:uncertainty-regularization",
    "Table D.1",
    ("i2t map@r", "t2i map@r", "images log_sigma", "captions log_sigma"),
    {
        "neither": (10.56, 13.32, -13.01, -8.77),
        "KL": (10.57, 13.77, -3.84, -3.89),
        "uniformity": (10.56, 13.31, -11.26, -7.59),
        "both": (10.65, 13.84, -3.63, -3.64),
    },
)

DEGREES = Source(
    "tab:sigma-isotropic",
    "Table D.2",
    PRECISION,
    {"PCME μ only": (24.7, 25.6), "PCME isotropic": (25.7, 26.0), "PCME": (26.3, 26.8)},
    digits=1,
)

ARCHITECTURE = Source(
    "tab:cub-arch",
    "Table D.3, above",
    PRECISION,
    {"neither": (25.60, 25.85), "σ alone": (24.65, 25.15), "μ alone": (25.01, 25.52), "both": (26.28, 26.77)},
)

SQUASHING = Source("tab:cub-arch", "Table D.3, below", PRECISION, {"with": (23.81, 24.58), "without": (26.28, 26.77)})
