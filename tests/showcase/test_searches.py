"""What is searched for on the page: against the score matrix and the truth."""

import numpy as np
import pytest

from pcme import analysis
from pcme.showcase.searches import by_captions, by_images


@pytest.fixture(scope="module")
def subject(run):
    return analysis.open_run(run, split="val")


def test_hits_are_the_best_of_the_gallery_with_their_probability(subject):
    p = np.exp(
        np.asarray(subject.model.score()(subject.embedded.captions, subject.embedded.images))
    )
    texts = list(subject.embedded.dataset.captions)
    for search in by_captions(subject, count=4, hits=3)[:-1]:
        row = p[texts.index(search.text)]
        assert [hit.score for hit in search.hits] == pytest.approx(np.sort(row)[::-1][:3])
        assert search.expected == pytest.approx(row.sum(), rel=1e-5)


def test_right_is_what_the_truth_says(subject):
    matches = subject.matches.dense()
    texts = list(subject.embedded.dataset.captions)
    score = np.asarray(subject.model.score()(subject.embedded.captions, subject.embedded.images))
    for search in by_captions(subject, count=5, hits=4)[:-1]:
        row = texts.index(search.text)
        order = np.argsort(-score[row], kind="stable")[:4]
        assert [hit.right for hit in search.hits] == matches[row][order].tolist()
        assert search.matches == matches[row].sum()


def test_queries_go_from_narrow_to_wide(subject):
    texts = list(subject.embedded.dataset.captions)
    widths = subject.captions.log_sigma.mean(1)
    found = [float(widths[texts.index(s.text)]) for s in by_captions(subject, count=5)[:-1]]
    assert found == sorted(found)


def test_the_last_caption_fits_nothing(subject):
    last = by_captions(subject)[-1]
    assert last.matches == 0
    assert not any(hit.right for hit in last.hits)


def test_an_image_finds_captions_of_different_texts(subject):
    for search in by_images(subject, count=3, hits=5):
        texts = [hit.text for hit in search.hits]
        assert len(set(texts)) == len(texts) == 5
        assert search.picture.startswith("data:image/jpeg;base64,")


def test_no_more_queries_than_there_are(subject):
    images = len(subject.embedded.dataset.images)
    assert len(by_images(subject, count=10 * images)) == images
