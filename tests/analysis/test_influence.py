"""influence: each change against the embedding of the sentence without the word."""

from dataclasses import replace

import numpy as np
import pytest

from pcme.analysis import Subject
from pcme.analysis.influence import InfluenceAnalysis, without_each
from pcme.errors import DataError
from pcme.uncertainty.sigma import mean_log_sigma
from tests.analysis.subjects import subject, untrained, world


def test_each_change_is_that_of_the_sentence_without_the_word():
    of = subject()
    words, image = ["a", "small", "red", "bird"], of.images[2]
    found = without_each(of, words, image)

    def measured(text):
        embedded = of.model.encode_captions([text])
        return mean_log_sigma(embedded)[0], of.model.score()(embedded, image).item()

    whole = measured("a small red bird")
    shorter = [measured(text) for text in ("small red bird", "a red bird", "a small bird", "a small red")]
    assert found.log_sigma == pytest.approx([w - whole[0] for w, _ in shorter], abs=1e-5)
    assert found.log_p == pytest.approx([p - whole[1] for _, p in shorter], abs=1e-4)
    assert found.p == pytest.approx(np.exp(whole[1]), rel=1e-4)


def test_words_are_averaged_over_captions_and_sorted():
    found = InfluenceAnalysis(captions=60, least=2, examples=2).compute(subject())
    changes = [word.log_sigma for word in found.words]
    assert changes == sorted(changes, reverse=True)
    assert min(word.times for word in found.words) >= 2
    assert (len(found.examples), found.captions) == (2, 60)


def test_captions_too_short_to_lose_a_word_are_an_error():
    short, whole = replace(world().subset([0]), captions=("a bird",) * 5), subject().embedded
    of = Subject.of(untrained(), replace(whole, dataset=short, images=whole.images[:1], captions=whole.captions[:5]))
    with pytest.raises(DataError, match="3 words"):
        InfluenceAnalysis().compute(of)
