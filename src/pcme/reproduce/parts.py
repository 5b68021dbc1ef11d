"""Rows and columns that several experiments share."""

from collections.abc import Mapping
from typing import Any

from pcme.reproduce.base import Column, Measure, Plot, Row
from pcme.reproduce.setups import Setup

PCME: Mapping[str, Any] = {"kind": "pcme", "likelihood": "sampled"}
"""The paper's method: Eq. (1)-(3) with J = 7 samples in training."""
MEANS: Mapping[str, Any] = {"kind": "pcme-mu"}


def pvse(embeddings: int, negatives: str = "hardest") -> Mapping[str, Any]:
    """PVSE with K embeddings; its margin and its other terms are the authors'."""
    return {"kind": "pvse", "embeddings": embeddings, "negatives": negatives}


VSRN: Mapping[str, Any] = {"kind": "vsrn"}
VSRN_AOQ: Mapping[str, Any] = {"kind": "vsrn-aoq"}


def at_once(method: Mapping[str, Any]) -> Mapping[str, Any]:
    """A method whose hardest negatives count alone from the first step, as its authors' do: without our warm start."""
    return {**method, "warm_start": 0.0}


def linear_head(kind: str) -> Mapping[str, Any]:
    """VSE0 or VSE++ with its authors' head: pooled features, a linear map, length one."""
    return {"kind": kind, "mean_attention": False, "mean_norm": False}


OURS = (Row("PCME, analytic (ours)", {"kind": "pcme"}), Row("PCME, overlap (ours)", {"kind": "pcme-overlap"}))
BROAD = Row("PCME, overlap, broad (ours)", {"kind": "pcme-overlap", "breadth_weight": 1.0})
"""The overlap with the term `breadth`, under which σ of photographs says something; on Aviary it has it anyhow."""

PRECISIONS = (Column("i2t R-P", "i2t r_precision"), Column("t2i R-P", "t2i r_precision"))
PRECISION = ("i2t R-P", "t2i R-P")
SIGMAS = (
    Column("images E[log σ]", "images log_sigma", "spread", percent=False, digits=2),
    Column("captions E[log σ]", "captions log_sigma", "spread", percent=False, digits=2),
)
SIGMA_ROWS = (Row("PCME, J = 7", PCME), *OURS)
"""Methods with a σ."""
DRAWN_ROWS = (SIGMA_ROWS[0], SIGMA_ROWS[2])
"""The paper's, and the one whose σ means ambiguity."""


def with_broad(rows: tuple[Row, ...], setup: Setup) -> tuple[Row, ...]:
    """These rows, and BROAD where the search chose the overlap without that term, because it retrieves better."""
    return (*rows, BROAD) if setup.searched else rows


def rank_correlation(metric: str, measure: Measure) -> Column:
    """The column of Spearman's ρ."""
    return Column("ρ", metric, measure, percent=False, digits=2)


PRECISION_BARS = Plot("bars", "R-Precision (%)", columns=PRECISION)
DIRECTIONS = {"i2t": "Images find captions", "t2i": "Captions find images"}
