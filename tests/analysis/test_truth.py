"""truth: Σ p against a loop, groups by hand, and data that cannot say."""

from dataclasses import replace

import numpy as np
import pytest

from pcme.analysis import Subject
from pcme.analysis.truth import TruthAnalysis, expected_matches, grouped
from pcme.uncertainty.sigma import mean_log_sigma
from pcme.uncertainty.statistics import rank_correlation
from tests.analysis.subjects import MEANS_ONLY, NO_PROBABILITY, subject, untrained, world


def test_groups_are_equally_wide_in_log_count():
    counts = np.array([1] * 5 + [11] * 5 + [100] * 6 + [50] * 2)
    values = np.arange(18.0)
    matches, low, middle, high = grouped(counts, values, 2)
    assert matches == pytest.approx([1, (11 * 5 + 100 * 6 + 50 * 2) / 13])
    assert middle == pytest.approx([np.median(values[:5]), np.median(values[5:])])
    assert (np.diff([low, middle, high], axis=0) >= 0).all()
    few, *_ = grouped(np.array([1] * 4 + [1000] * 5), np.arange(9.0), 3)
    assert few.tolist() == [1000]


def test_figures_are_of_all_captions_and_points_of_some():
    of = subject()
    found = TruthAnalysis(shown=7).compute(of)
    counts = of.matches.counts.astype(float)
    assert found.width.correlation.value == pytest.approx(rank_correlation(mean_log_sigma(of.captions), counts))
    assert len(found.width.points) == len(found.expected.points) == 7
    expected = of.model.score()(of.captions, of.images).double().exp().numpy().sum(1)
    np.testing.assert_allclose(expected_matches(of.model.score(), of.captions, of.images), expected)
    off = np.exp(np.abs(np.log(expected / counts)).mean())
    assert found.factor.value == pytest.approx(off)


def test_without_sigma_it_still_expects_and_without_probability_or_different_counts_it_cannot():
    found = TruthAnalysis().compute(subject(MEANS_ONLY))
    assert (found.width, len(found.numbers())) == (None, 2)
    assert "match probability" in TruthAnalysis().obstacle(subject(NO_PROBABILITY))
    whole = world()
    alone = replace(whole, facts=np.arange(len(whole.images))[:, None], said=whole.caption_image[:, None])
    of = Subject(untrained(), lambda: alone, lambda _: None)
    assert "each matches 1" in TruthAnalysis().obstacle(of)
