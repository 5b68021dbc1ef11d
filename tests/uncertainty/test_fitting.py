"""One pass over the pairs against loops; what is fitted is what the parts of it are."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import expit

from pcme import Gaussian, Matches, Points, scores
from pcme.core.random import numpy_stream
from pcme.errors import DataError
from pcme.uncertainty import fit
from pcme.uncertainty.curve import fit_curve, log_odds
from pcme.uncertainty.fitting import observe
from pcme.uncertainty.no_match import fit_no_match_rule
from pcme.uncertainty.risk_coverage import risk_coverage
from tests.uncertainty.worlds import SCORE, part


def test_one_pass_sees_what_loops_see():
    pairs = part(captions=30, images=24)
    counted, hits = observe(SCORE, pairs)
    bests, rights, wrongs = hits.joined()
    odds = log_odds(SCORE(pairs.captions, pairs.images).numpy())
    truth, order = pairs.matches.dense(), numpy_stream(0, "gallery").permutation(24)
    assert hits.sizes.tolist() == [6, 12, 24]
    for row, (best, right, wrong) in enumerate(zip(bests, rights, wrongs.T, strict=True)):
        assert best == odds[row].max()
        assert right == truth[row, odds[row].argmax()]
        for size, value in zip(hits.sizes, wrong, strict=True):
            assert value == max((odds[row, i] for i in order[:size] if not truth[row, i]), default=-np.inf)
    assert (counted.count.sum(), counted.true.sum()) == (30 * 24, truth.sum())


def test_a_fit_is_made_of_its_parts():
    pairs = part(captions=200, images=60)
    confidence, (counted, hits) = fit(SCORE, pairs, model="m", false_alarm=0.2), observe(SCORE, pairs)
    curve, (best, right, wrong) = fit_curve(counted), hits.joined()
    assert confidence.curve == curve
    assert confidence.by_p == risk_coverage(curve(best), right)
    assert confidence.presence == fit_no_match_rule(hits.sizes, curve(wrong), curve(best), false_alarm=0.2)
    assert (expit(curve(wrong[-1])) >= confidence.presence.threshold()).mean() == pytest.approx(0.2, abs=0.02)
    assert confidence.basis.matching == pytest.approx(pairs.matches.dense().mean())
    spread = pairs.captions.uncertainty().numpy()
    assert confidence.captions[0] == pytest.approx(spread.min())
    assert confidence.captions[-1] == pytest.approx(spread.max())
    assert confidence.by_sigma == risk_coverage(-spread.astype(np.float64), right)


def test_queries_without_a_match_are_not_counted_as_right_or_wrong():
    pairs = part(captions=200, images=60)
    strangers = Gaussian(torch.full((50, 2), 9.0), torch.full((50, 2), -1.0))
    matches = Matches.from_dense(np.concatenate([pairs.matches.dense(), np.zeros((50, 60), np.bool_)]))
    more = replace(pairs, captions=Gaussian.cat([pairs.captions, strangers]), matches=matches)
    assert fit(SCORE, more, model="m").by_sigma == fit(SCORE, pairs, model="m").by_sigma


def test_a_model_of_points_has_a_confidence_without_widths():
    pairs = part(captions=200, images=60)
    captions, images = (Points(items.mean[:, None]) for items in (pairs.captions, pairs.images))
    score = scores.create("match_prob", scale=4.0, shift=4.0, method="sampled")
    confidence = fit(score, replace(pairs, captions=captions, images=images), model="m")
    assert (confidence.by_sigma, confidence.captions, confidence.images) == (None, None, None)


def test_where_everything_matches_there_is_nothing_to_learn():
    pairs = part()
    everything = replace(pairs, matches=Matches.from_dense(np.ones(pairs.matches.shape, np.bool_)))
    with pytest.raises(DataError, match="needed"):
        fit(SCORE, everything, model="m")
