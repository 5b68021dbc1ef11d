"""extremes: the ends of the order of σ, and hits against the whole matrix."""

import numpy as np
import pytest

from pcme.analysis.extremes import ExtremesAnalysis
from pcme.retrieval import metrics
from pcme.uncertainty.sigma import mean_log_sigma
from tests.analysis.subjects import subject


@pytest.fixture(scope="module")
def tails():
    return ExtremesAnalysis(count=2, hits=3, tail=0.1).compute(subject())


def test_captions_come_from_the_ends_of_the_order_with_different_texts_and_images_of_different_classes(tails):
    order = np.argsort(mean_log_sigma(subject().captions), kind="stable")
    assert tails.captions.narrowest[0].place == order[0]
    assert tails.captions.widest[0].place == order[-1]
    assert tails.captions.widest[0].width >= tails.captions.widest[1].width
    assert tails.captions.widest[0].text != tails.captions.widest[1].text
    places = [item.place for item in tails.images.widest]
    assert len(set(subject().clusters[places].tolist())) == 2


def test_hits_and_recall_are_those_of_the_whole_matrix_and_judged_by_the_truth(tails):
    of = subject()
    matrix, truth = of.model.score()(of.captions, of.images), of.matches.dense()
    for item in (*tails.captions.widest, *tails.captions.narrowest):
        best = np.argsort(-matrix[item.place].numpy(), kind="stable")[:3]
        assert [hit.place for hit in item.hits] == best.tolist()
        assert [hit.right for hit in item.hits] == truth[item.place, best].tolist()
        assert item.matches == truth[item.place].sum()
    recall = metrics.recall(matrix, of.matches, 1)
    widest = np.argsort(mean_log_sigma(of.captions), kind="stable")[::-1][:12]
    assert tails.captions.recall_widest == pytest.approx(recall[widest].mean())


def test_an_image_finds_different_sentences_in_falling_order(tails):
    for item in tails.images.widest:
        scores, texts = [hit.score for hit in item.hits], [hit.text for hit in item.hits]
        assert scores == sorted(scores, reverse=True)
        assert len(set(texts)) == len(texts)
        assert texts == [subject().dataset.captions[hit.place] for hit in item.hits]
