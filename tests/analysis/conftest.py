"""One result of each analysis, of a world whose captions hold what neither mathematics nor XML may stumble over."""

from dataclasses import replace

import pytest

from pcme import analysis
from pcme.analysis import Subject
from tests.analysis.subjects import subject

ODD = "a $5 <unk> bird & $x^2$, 100 % “über” {braces}"
SMALL = {
    "algebra": {"pairs": 6},
    "bins": {"bins": 3},
    "erasing": {"items": 6},
    "extremes": {"count": 2},
    "influence": {"captions": 6, "least": 1},
    "toy": {"steps": 3},
    "words": {"bins": 2, "least": 2},
}
"""Parameters that make an analysis quick."""


def compute(name):
    whole = subject().embedded
    captions = tuple(f"{text} {ODD}" if row % 2 else text for row, text in enumerate(whole.dataset.captions))
    odd = replace(whole, dataset=replace(whole.dataset, captions=captions))
    return analysis.create(name, **SMALL.get(name, {})).compute(Subject.of(subject().model, odd))


@pytest.fixture(scope="package")
def results():
    return {name: compute(name) for name in analysis.names()}
