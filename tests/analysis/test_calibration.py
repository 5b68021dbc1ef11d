"""calibration: reliability against a loop, the curve against thresholds, both kinds of nothing."""

from dataclasses import replace

import numpy as np
import pytest

from pcme import evaluation
from pcme.analysis import Subject
from pcme.analysis.calibration import WITHHELD, WRITTEN, CalibrationAnalysis, best_of_each, roc
from pcme.uncertainty.statistics import auroc
from tests.analysis.subjects import subject


def test_the_curve_against_thresholds():
    generator = np.random.default_rng(0)
    matched, unmatched = generator.beta(3, 1, 40), generator.beta(1, 2, 30)
    found = roc(WRITTEN, matched, unmatched)
    thresholds = sorted([*matched, *unmatched], reverse=True)
    expected = [(0.0, 0.0)] + [((unmatched >= t).mean(), (matched >= t).mean()) for t in thresholds]
    assert np.array(expected) == pytest.approx(np.column_stack([found.false_alarms, found.found]))
    area = np.trapezoid(found.found, found.false_alarms)
    assert area == pytest.approx(auroc(matched, unmatched))
    assert found.auroc == pytest.approx(area)
    found = roc(WRITTEN, *np.random.default_rng(0).random((2, 5000)), points=50)
    assert (len(found.found), found.found[0], found.found[-1]) == (51, 0, 1), "thinned, but for its ends"


def test_reliability_against_a_loop():
    of = subject()
    found = CalibrationAnalysis(bins=4).compute(of)
    p = of.model.score()(of.captions, of.images).double().exp().numpy().ravel()
    truth = of.matches.dense().ravel()
    place = np.minimum((p * 4).astype(int), 3)
    bins = [place == b for b in range(4) if (place == b).any()]
    assert found.count == tuple(rows.sum() for rows in bins)
    assert found.confidence == pytest.approx([p[rows].mean() for rows in bins])
    assert found.true == pytest.approx([truth[rows].mean() for rows in bins])
    assert found.error == pytest.approx(sum(abs(p[r].mean() - truth[r].mean()) * r.mean() for r in bins))
    assert found.pairs == len(p)


def test_aviary_writes_captions_that_fit_nothing_and_elsewhere_the_matches_are_taken_away():
    of = subject()
    written = CalibrationAnalysis(unmatched=30).compute(of).nothing
    assert (written.nothing, written.unmatched) == (WRITTEN, 30)
    plain = replace(of.embedded.dataset, writer=None)
    other = Subject.of(of.model, evaluation.Embedded(plain, of.images, of.captions))
    found = CalibrationAnalysis().compute(other).nothing
    p = of.model.score()(of.captions, of.images).double().exp().numpy()
    truth = of.matches.dense()
    best, rest = p.max(1), np.where(truth, 0, p).max(1)
    assert (found.nothing, found.matched) == (WITHHELD, 120)
    assert found.auroc == pytest.approx(auroc(best, rest))
    assert best_of_each(of.model.score(), of.captions, of.images) == pytest.approx(best)
