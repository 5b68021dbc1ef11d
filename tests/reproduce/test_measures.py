"""What is asked of a trained model: by other ways to the same numbers; every column is there."""

from pathlib import Path

import numpy as np
import pytest

from pcme import scores
from pcme.analysis.bins import BinsAnalysis
from pcme.embedding import Gaussian
from pcme.evaluation import open_run, retrieval
from pcme.evaluation.protocols import protocol
from pcme.evaluation.readings import Folds
from pcme.reproduce import registry
from pcme.reproduce.base import OWN, PAPER_SCORE, Measurement, Scoring
from pcme.reproduce.measures import measure as measure_in
from pcme.reproduce.setups import SETUPS
from tests.reproduce.tiny import SETUP

DIAGONAL, POINTS = 2, 0
"""Places in dof's table of the rows with a σ a dimension, and with none."""


def measure(measurement, subject, run=Path("no-run")):
    """Measure what needs no folder."""
    return measure_in(measurement, subject, run)


def subject(dof, place):
    out, result = dof
    return open_run(out / "runs" / result.tables[0].rows[place].runs[0].digest)


@pytest.fixture(scope="module")
def gaussians(dof):
    return subject(dof, DIAGONAL)


def test_retrieval_is_that_of_the_evaluation_and_the_mean_of_both_ways(gaussians):
    part = gaussians.embedded
    expected = retrieval(gaussians.model.score(), part.images, part.captions, part.dataset.matches())
    found = measure(Measurement("retrieval", "unseen", OWN), gaussians)
    for way, figures in expected.items():
        assert {f"{way} {name}": value for name, value in figures.items()}.items() <= found.items()
    mean = (found["i2t recall@1"] + found["t2i recall@1"]) / 2
    assert found["both recall@1"] == pytest.approx(mean)
    assert (found["images"], found["captions"]) == (30, 120)


def test_the_own_score_keeps_what_it_has_learned(gaussians):
    own = gaussians.model.score()
    sampled = PAPER_SCORE.of(own)
    assert (sampled.scale, sampled.shift) == (own.scale, own.shift)
    assert (own.method, sampled.method, sampled.samples) == ("analytic", "sampled", 7)
    assert Scoring("kl").of(own) == scores.create("kl")


def test_spread_is_the_mean_of_log_sigma_which_points_have_none_of(gaussians, dof):
    found = measure(Measurement("spread", "unseen", OWN), gaussians)
    assert isinstance(gaussians.embedded.images, Gaussian)
    expected = gaussians.embedded.images.log_sigma.double().mean().item()
    assert found["images log_sigma"] == pytest.approx(expected)
    points = subject(dof, POINTS)
    assert measure(Measurement("cost", "unseen", OWN), points)["numbers"] == 16  # they are kept as they are
    none = measure(Measurement("spread", "unseen", OWN), points)
    assert none == {"images log_sigma": None, "captions log_sigma": None}


@pytest.mark.parametrize(
    ("scoring", "numbers"),
    [
        (Scoring("mean"), 16 + 1),  # and the square of its length
        (Scoring("w2"), 32),
        (OWN, 32),
        (PAPER_SCORE, 7 * 16),
        (Scoring("average_l2", {"samples": 3}), 3 * 16),
    ],
    ids=lambda part: getattr(part, "key", ""),
)
def test_cost_counts_what_a_gallery_keeps_of_an_item(gaussians, scoring, numbers):
    found = measure(Measurement("cost", "unseen", scoring), gaussians)
    assert found["numbers"] == numbers
    assert 0 < found["microseconds"] < 1e5


def test_bins_hold_all_queries(gaussians):
    """Equal counts, so that the bins' mean is that of all queries."""
    found = measure(Measurement("bins", "unseen", OWN), gaussians)
    recall = measure(Measurement("retrieval", "unseen", OWN), gaussians)
    for way in ("i2t", "t2i"):
        bins = [found[f"{way} bin {n}"] for n in range(1, 11)]
        assert np.mean(bins) == pytest.approx(recall[f"{way} recall@1"])


def test_every_column_of_every_experiment_is_measured(gaussians, tmp_path):
    """Of those that can be made here; a metric that nothing gives would be a KeyError later."""
    asked = {}
    for name in registry.names():
        if "aviary" in registry.get(name).setups:
            for table in registry.create(name).tables(SETUP):
                for column in table.columns:
                    drawn = table.drawn if column.measure == "analysis" else None
                    measurement = Measurement(column.measure, "unseen", OWN, drawn)
                    asked.setdefault(measurement.key, (measurement, set()))[1].add(column.metric)
    for kind, (measurement, metrics) in asked.items():
        found = measure(measurement, gaussians, tmp_path)
        assert metrics <= set(found), kind
        assert all(value is None or np.isfinite(value) for value in found.values())


def test_bins_in_folds_are_measured_where_the_split_has_folds(dof):
    of = subject(dof, DIAGONAL)
    vars(of)["protocol"] = protocol(of.embedded.dataset, [Folds(size=6)])  # as COCO has five of 1,000
    found = measure(Measurement("bins", "unseen", OWN), of)
    asked = [column.metric for table in registry.create("fig6").tables(SETUPS["coco"]) for column in table.columns]
    assert set(asked) <= set(found)
    for queries in BinsAnalysis(protocol="1k").compute(of).ways:
        mean = next(curve.mean for curve in queries.curves if curve.metric == "recall@1")
        assert [found[f"{queries.way} 1k bin {n}"] for n in range(1, 11)] == list(mean)
    assert found["t2i bin 1"] != found["t2i 1k bin 1"]
