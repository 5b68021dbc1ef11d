"""words: the formula of the paper on a toy corpus, bins and places by hand."""

import math

import numpy as np
import pytest

from pcme.analysis.words import WordsAnalysis, tf_idf
from pcme.data.text.tokens import tokenise
from pcme.errors import DataError
from pcme.uncertainty.sigma import mean_log_sigma
from tests.analysis.subjects import subject

CORPUS = [frozenset(text.split()) for text in ("a bird", "a jay", "a bird sings", "a jay sings")]


def test_the_formula_on_a_toy_corpus():
    found = {word.word: word for word in tf_idf(CORPUS)}
    assert found["a"].weight == 0
    assert found["bird"].weight == pytest.approx((1 + math.log(2)) * math.log(2))
    assert (found["bird"].captions, found["a"].captions) == (2, 4)
    assert list(found) == ["bird", "jay", "sings", "a"], "the greatest first, ties by name"


def test_bins_hold_the_captions_of_their_items():
    of = subject()
    images, captions = WordsAnalysis(bins=3, least=1).compute(of).sides
    assert [one.captions for one in captions.bins] == [40, 40, 40]
    assert [one.captions for one in images.bins] == [40, 40, 40]  # 8 images of 5 captions each
    assert sorted(one.width for one in captions.bins) == [one.width for one in captions.bins]
    with pytest.raises(DataError, match="--set bins"):  # more than there are images
        WordsAnalysis(bins=25).compute(of)


def test_lift_is_how_much_more_often_a_word_stands_in_its_bin():
    of = subject()
    widest = WordsAnalysis(bins=2, least=1).compute(of).sides[1].bins[1]
    order = np.argsort(mean_log_sigma(of.captions), kind="stable")
    texts = [tokenise(text) for text in of.dataset.captions]
    word = widest.words[0]
    here = np.mean([word.word in texts[i] for i in order[60:]])
    everywhere = np.mean([word.word in text for text in texts])
    assert word.lift == pytest.approx(here / everywhere)


def test_places_are_mean_shares_of_narrower_items():
    of = subject()
    side = WordsAnalysis(least=1).compute(of).sides[1]
    share = np.argsort(np.argsort(mean_log_sigma(of.captions))) / 119
    texts = [tokenise(text) for text in of.dataset.captions]
    for placed in (*side.narrowest, *side.widest):
        own = [share[i] for i, words in enumerate(texts) if placed.word in words]
        assert placed.place == pytest.approx(np.mean(own))
        assert placed.captions == len(own)
    assert side.narrowest[0].place <= side.narrowest[-1].place <= side.widest[0].place
    frequent = WordsAnalysis(least=60).compute(of).sides[1]
    assert min(word.captions for word in (*frequent.narrowest, *frequent.widest)) >= 60
