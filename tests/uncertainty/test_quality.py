"""The report against plain computations on the whole matrix."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import expit

from pcme import Gaussian
from pcme.uncertainty import assess, fit
from pcme.uncertainty.curve import log_odds
from pcme.uncertainty.risk_coverage import area
from pcme.uncertainty.statistics import Calibration, auroc
from tests.uncertainty.worlds import SCORE, part


def some_captions(of, rows):
    return replace(of, captions=of.captions[list(rows)], matches=of.matches[list(rows)])


@pytest.fixture(scope="module")
def judgement():
    first, second = (some_captions(part(600, 50), rows) for rows in (range(400), range(400, 600)))
    confidence = fit(SCORE, first, model="m")
    strangers = Gaussian(torch.full((40, 2), 6.0), torch.full((40, 2), -1.0))
    report = assess(confidence, SCORE, second, unmatched=strangers)
    raw_odds = log_odds(SCORE(second.captions, second.images).numpy())
    return report, confidence, second, raw_odds, strangers


def test_beliefs(judgement):
    report, confidence, some, raw_odds, _ = judgement
    truth = some.matches.dense()
    for belief, odds in ((report.raw, raw_odds), (report.calibrated, confidence.curve(raw_odds))):
        p = expit(odds)
        counted, first = Calibration(), Calibration()
        counted.add(p, truth)
        rows, best = np.arange(len(p)), odds.argmax(1)
        first.add(p[rows, best], truth[rows, best])
        assert belief.error == pytest.approx(counted.error)
        assert belief.first_error == pytest.approx(first.error)
        assert belief.reliability == counted.reliability
        loss = -np.where(truth, np.log(p), np.log1p(-p)).mean()
        assert belief.log_loss == pytest.approx(loss)


def test_calibration_helps_on_captions_that_it_has_not_seen(judgement):
    report = judgement[0]
    assert report.calibrated.error < report.raw.error
    assert report.calibrated.log_loss < report.raw.log_loss
    assert abs(report.expected - 1) < abs(report.raw_expected - 1)


def test_separation(judgement):
    report, confidence, some, raw_odds, strangers = judgement
    odds, truth = confidence.curve(raw_odds), some.matches.dense()
    present = odds.max(1)
    removed = np.where(truth, -np.inf, odds).max(1)
    alone = confidence.curve(log_odds(SCORE(strangers, some.images).numpy())).max(1)
    threshold = confidence.presence.threshold(50)
    assert report.threshold == threshold
    for separation, absent in ((report.removed, removed), (report.unmatched, alone)):
        assert separation.auroc == pytest.approx(auroc(present, absent))
        assert separation.recall == (expit(present) >= threshold).mean()
        assert separation.false_alarm == (expit(absent) >= threshold).mean()
        assert separation.over_half == (expit(absent) > 0.5).mean()
    assert report.unmatched.auroc > 0.95


def test_risk_and_expectation(judgement):
    report, confidence, some, raw_odds, _ = judgement
    right = some.matches.dense()[np.arange(len(raw_odds)), raw_odds.argmax(1)]
    spread = some.captions.uncertainty().numpy()
    assert report.by_p.area == pytest.approx(area(raw_odds.max(1), right))
    assert report.by_sigma.area == pytest.approx(area(-spread, right))
    assert report.by_p.curve.covering(1.0).risk == pytest.approx(1 - right.mean())
    p = confidence.probability(SCORE(some.captions, some.images).numpy())
    assert report.expected == pytest.approx(p.sum() / some.matches.counts.sum())
    assert -1 <= report.expected_order <= 1
