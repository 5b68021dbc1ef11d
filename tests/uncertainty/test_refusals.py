"""Refusals: what makes no sense is an error of the right class, wherever it is asked."""

import numpy as np
import pytest

from pcme.errors import ConfigError, DataError, ShapeError
from pcme.uncertainty.curve import Curve, Histogram, fit_curve, log_odds
from pcme.uncertainty.no_match import NoMatchRule, fit_no_match_rule
from pcme.uncertainty.quantiles import checked_share, quantiles, require_rising, value_at
from pcme.uncertainty.risk_coverage import RiskCoverage, risk_by_coverage, risk_coverage
from pcme.uncertainty.statistics import Calibration, auroc, rank_correlation
from tests.uncertainty.worlds import RULE, drawn, histogram, some_confidence


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: quantiles(np.array([])), DataError),
        (lambda: quantiles(np.array([1.0, np.nan])), DataError),
        (lambda: require_rising((1.0,), "few"), DataError),
        (lambda: require_rising((1.0, 0.0), "falling"), DataError),
        (lambda: checked_share(1.1, "share"), ConfigError),
        (lambda: checked_share(float("nan"), "share"), ConfigError),
        (lambda: value_at((0.0, 1.0), -0.1), ConfigError),
        (lambda: log_odds(0.1), DataError),
        (lambda: log_odds(np.nan), DataError),
        (lambda: Histogram().add(np.zeros(2), np.zeros(3, np.bool_)), ShapeError),
        (lambda: fit_curve(histogram(np.zeros(5), np.ones(5, np.bool_))), DataError),
        (lambda: fit_curve(histogram(np.zeros(5), np.zeros(5, np.bool_))), DataError),
        (lambda: fit_curve(histogram(*drawn(2000, 0, true=lambda x: -x))), DataError),
        (lambda: fit_curve(histogram(*drawn(99, 0)), "histogram"), ConfigError),
        (lambda: Curve((0.0,), (0.0, 1.0), 1.0), ShapeError),
        (lambda: Curve((), (), 1.0), ShapeError),
        (lambda: Curve((0.0, 0.0), (0.0, 1.0), 1.0), DataError),
        (lambda: Curve((0.0, 1.0), (1.0, 0.0), 1.0), DataError),
        (lambda: Curve((0.0, 1.0), (0.0, 1.0), 0.0), DataError),
        (lambda: risk_by_coverage(np.zeros(0), np.zeros(0, np.bool_)), ShapeError),
        (lambda: risk_by_coverage(np.zeros(2), np.zeros(3, np.bool_)), ShapeError),
        (lambda: RiskCoverage((1.0,), (0.0,)), DataError),
        (lambda: RiskCoverage(tuple(range(100)), (0.0,) * 100), DataError),
        (lambda: RiskCoverage((0.0,) * 100, (1.5,) * 100), DataError),
        (lambda: risk_coverage(np.zeros(3), np.zeros(3, np.bool_)).risking(0.5), ConfigError),
        (lambda: risk_coverage(np.zeros(3), np.ones(3, np.bool_)).covering(1.5), ConfigError),
        (lambda: Calibration().add(np.array([1.2]), np.array([True])), DataError),
        (lambda: Calibration().add(np.array([np.nan]), np.array([True])), DataError),
        (lambda: Calibration().add(np.array([0.2]), np.array([True, False])), ShapeError),
        (lambda: auroc(np.array([]), np.array([1.0])), DataError),
        (lambda: rank_correlation(np.zeros(3), np.zeros(4)), ShapeError),
        (lambda: rank_correlation(np.zeros(1), np.zeros(1)), ShapeError),
        (lambda: RULE.threshold(0), ConfigError),
        (lambda: RULE.threshold(false_alarm=2.0), ConfigError),
        (lambda: RULE.alarm(1.5), DataError),
        (lambda: NoMatchRule(0, 1.0, (0.0, 1.0), (0.0, 1.0), 0.1), DataError),
        (lambda: NoMatchRule(9, -1.0, (0.0, 1.0), (0.0, 1.0), 0.1), DataError),
        (lambda: NoMatchRule(9, 1.0, (1.0, 0.0), (0.0, 1.0), 0.1), DataError),
        (lambda: NoMatchRule(9, 1.0, (0.0, 1.0), (0.0,), 0.1), DataError),
        (lambda: NoMatchRule(9, 1.0, (0.0, 1.0), (0.0, 1.0), 1.1), ConfigError),
        (lambda: fit_no_match_rule(np.array([9]), np.array([[-np.inf]]), np.zeros(1), false_alarm=0.1), DataError),
        (lambda: some_confidence().percentile(0.1, "images"), DataError),
        (lambda: some_confidence().percentile(0.1, "words"), ConfigError),
        (lambda: some_confidence().threshold(), ConfigError),
        (lambda: some_confidence().threshold(min_coverage=0.5, max_risk=0.5), ConfigError),
        (lambda: some_confidence().threshold(min_coverage=0.5, by="sigma"), DataError),
        (lambda: some_confidence().probability(0.5), DataError),
    ],
)
def test_what_makes_no_sense_is_refused(call, error):
    with pytest.raises(error):
        call()
