"""erasing: what widths come to, that nothing spoiled is nothing changed, and what it needs."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from pcme.analysis import Subject
from pcme.analysis.erasing import ErasingAnalysis, curve
from pcme.uncertainty.perturbation import RATIOS, delete_words
from pcme.uncertainty.sigma import mean_log_sigma
from tests.analysis.subjects import subject, untrained, world
from tests.helpers import unless_annotations_are_enforced


def test_rising_and_falling_items_are_told_apart():
    ramp = np.arange(len(RATIOS), dtype=float)
    widths = np.stack([ramp, 10 + ramp, 20 - ramp, 30 + ramp])
    found = curve("deleted", widths, np.arange(4))
    assert found.rises.value == 0.75
    assert found.mean == pytest.approx(widths.mean(0))
    assert found.low[0] <= found.mean[0] <= found.high[0]
    assert (found.of, found.items, found.name) == ("captions", 4, "words deleted")
    alike = curve("erased", np.tile(ramp, (5, 1)), np.arange(5))
    assert alike.correlation.value == pytest.approx(1)


def test_every_way_begins_with_what_was_there():
    of = subject()
    seen = []
    found = ErasingAnalysis(items=1000).compute(of, lambda _, done, total: seen.append((done, total)))
    assert seen == [(n, 4 * len(RATIOS)) for n in range(1, 4 * len(RATIOS) + 1)]
    assert [one.way for one in found.curves] == ["replaced", "deleted", "appended", "erased"]
    for one in found.curves:
        clean = mean_log_sigma(of.captions if one.of == "captions" else of.images)
        assert one.mean[0] == pytest.approx(clean.mean(), abs=1e-5)
        assert one.items == len(clean)


def test_deleting_is_nested():
    words = ["a", "small", "bird", "with", "a", "red", "crown", "and", "a", "long", "bill"]
    parts = [Counter(delete_words(words, np.random.default_rng(3), ratio)) for ratio in RATIOS]
    assert (parts[0], parts[-1]) == (Counter(words), Counter())
    assert all(less <= more for more, less in pairwise(parts))


@unless_annotations_are_enforced
def test_vectors_on_both_sides_leave_nothing_to_spoil():
    images = replace(world(), image_vectors=[0] * len(world().images))
    both = replace(images, caption_vectors=[0] * len(world().captions))
    assert ErasingAnalysis().obstacle(Subject(untrained(), lambda: images, lambda _: None)) is None
    assert "given as vectors" in ErasingAnalysis().obstacle(Subject(untrained(), lambda: both, lambda _: None))
