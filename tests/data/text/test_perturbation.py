import numpy as np
import pytest

from pcme.core.random import numpy_stream
from pcme.data.text.perturbation import WordAugmentation, drop_words, erase_words

WORDS = ["a", "small", "red", "bird", "with", "a", "long", "bill", "on", "a", "branch"]


def stream():
    return np.random.default_rng(5)


def test_words_are_dropped_or_a_share_of_captions_is_erased():
    """The stream says which: the same draws, in the same order, as by hand."""
    assert WordAugmentation().apply(WORDS, stream()) == WORDS
    assert WordAugmentation(drop=0.3).apply(WORDS, stream()) == drop_words(WORDS, stream(), 0.3)
    both, outcomes = WordAugmentation(drop=0.3, erasing=0.5), set()
    for seed in range(20):
        found, by_hand = (np.random.default_rng(seed) for _ in range(2))
        erases = by_hand.random() < 0.5
        expected = erase_words(WORDS, by_hand, by_hand.random()) if erases else drop_words(WORDS, by_hand, 0.3)
        assert both.apply(WORDS, found) == expected
        outcomes.add(erases)
    assert outcomes == {True, False}


def test_a_view_is_a_draw_by_number_and_caption():
    augmentation = WordAugmentation(drop=0.5)
    assert augmentation.view(WORDS, 1, 7) == augmentation.apply(WORDS, numpy_stream(0, "caption view", 1, 7))
    views = {tuple(augmentation.view(WORDS, number, caption)) for number in range(3) for caption in range(3)}
    assert len(views) == 9


@pytest.mark.parametrize(("drop", "erasing", "same"), [(0.0, 0.0, True), (0.1, 0.0, False), (0.0, 0.1, False)])
def test_only_without_any_augmentation_are_all_draws_the_same(drop, erasing, same):
    assert WordAugmentation(drop, erasing).deterministic == same
