"""What the tests of reproductions share: a world that trains in seconds, and a handmade result."""

from dataclasses import replace

from pcme.reproduce.base import Column, Plot
from pcme.reproduce.outcome import Difference, Result, ResultRow, ResultTable, Training
from pcme.reproduce.setups import SETUPS

SETUP = replace(
    SETUPS["aviary"],
    base="aviary-tiny",
    quick=("phases.0.epochs=1", "phases.1.epochs=1", "data.test_species=6", "data.test_images=5"),
)

LABELS = ('{"epochs":1,"learning_rate":0.005,"task":"labels"}', '{"epochs":1,"learning_rate":0.008}')
WITH_LABELS = replace(SETUP, quick=(*SETUP.quick[2:], f"phases=[{','.join(LABELS)}]"))
"""The same, with a backbone that learns labels first."""

COLUMNS = (Column("i2t R-P", "i2t r_precision"), Column("log σ", "images log_sigma", "spread", percent=False, digits=2))
RUNS = (Training("abc", 60.0, False), Training("def", 2.5, False))


def row(label, first, second, paper=(None, None), **options):
    return ResultRow(label, ("dim=4",), "own", RUNS, (first, second), paper, **options)


TABLE = ResultTable(
    "Unseen classes",
    "Table 9",
    2,
    COLUMNS,
    (
        row("PVSE", (0.25, 0.35), (None, None), (22.35, None), series="points", x=1.0),
        row("PCME", (0.5, 0.5), (-3.0, -4.0), (26.28, -3.84), series="ours", x=2.0),
    ),
    Plot("bars", "%", columns=("i2t R-P",)),
    (Difference("PCME is better", (25.0, 15.0), 3.93),),
    {"images": 1000.0, "captions": 4000.0, "i2t chance": 0.1, "t2i chance": 0.2},
)

RESULT = Result(
    "table9", "Handmade.", "Table 9", "aviary", True, "pcme reproduce table9 --quick", "aviary", 2,
    (TABLE,), "It is another world.", ("Handmade too.",), {"pcme": "0"},
)  # fmt: skip
