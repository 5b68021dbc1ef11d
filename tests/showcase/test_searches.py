"""What is searched for on the page: against the score matrix and the truth."""

import numpy as np
import pytest

from pcme.evaluation.open_run import open_run
from pcme.showcase.searches import ShownHit, _of_different_texts, by_captions, by_images
from pcme.uncertainty.calibrate import calibrate
from tests.models import untrained


@pytest.fixture(scope="module")
def subject(sigma_run):
    return open_run(sigma_run, split="val")


def test_hits_are_the_best_of_the_gallery_with_their_probability(subject):
    p = np.exp(np.asarray(subject.model.score()(subject.embedded.captions, subject.embedded.images)))
    texts = list(subject.embedded.dataset.captions)
    for search in by_captions(subject, None, count=4, hits=3)[:-1]:
        row = p[texts.index(search.text)]
        assert [hit.value for hit in search.hits] == pytest.approx(np.sort(row)[::-1][:3], rel=1e-4)
        assert search.expected == pytest.approx(row.sum(), rel=1e-5)


def test_right_is_what_the_truth_says(subject):
    matches = subject.matches.dense()
    texts = list(subject.embedded.dataset.captions)
    score = np.asarray(subject.model.score()(subject.embedded.captions, subject.embedded.images))
    for search in by_captions(subject, None, count=5, hits=4)[:-1]:
        row = texts.index(search.text)
        order = np.argsort(-score[row], kind="stable")[:4]
        assert [hit.relevant for hit in search.hits] == matches[row][order].tolist()
        assert search.matches == matches[row].sum()


def test_queries_go_from_narrow_to_wide(subject):
    texts = list(subject.embedded.dataset.captions)
    widths = subject.captions.log_sigma.mean(1)
    found = [float(widths[texts.index(s.text)]) for s in by_captions(subject, None, count=5)[:-1]]
    assert found == sorted(found)


def test_the_last_caption_fits_nothing(subject):
    last = by_captions(subject, None)[-1]
    assert last.matches == 0
    assert not any(hit.relevant for hit in last.hits)


def test_an_image_finds_captions_of_different_texts(subject):
    for search in by_images(subject, None, count=3, hits=5):
        texts = [hit.text for hit in search.hits]
        assert len(set(texts)) == len(texts) == 5
        assert search.picture.startswith("data:image/jpeg;base64,")
    hits = [ShownHit(name, None, text, 0.5, relevant=True) for name, text in zip("abcd", "xyxz", strict=True)]
    assert [hit.id for hit in _of_different_texts(hits)] == ["a", "b", "d"]


def test_no_more_queries_than_there_are(subject):
    assert len(by_images(subject, None, count=1000)) == len(subject.embedded.dataset.images)


def test_probabilities_are_calibrated_where_a_confidence_is_given(subject, sigma_run):
    """The page once showed the model's own p beside a confidence.json (defect 6)."""
    confidence = calibrate(sigma_run, subject.dataset).confidence
    raw = by_captions(subject, None, count=3)
    calibrated = by_captions(subject, confidence, count=3)
    for before, after in zip(raw, calibrated, strict=True):
        assert [hit.id for hit in before.hits] == [hit.id for hit in after.hits]
        logs = np.log([hit.value for hit in before.hits])
        assert [hit.value for hit in after.hits] == pytest.approx(confidence.probability(logs), rel=1e-4)
    assert [s.expected for s in raw] != pytest.approx([s.expected for s in calibrated])


def test_several_points_per_item_are_ranked_by_their_score():
    model = untrained('method={"kind": "pvse"}')
    of = open_run(model, split="val")
    (search,) = by_captions(of, None, count=1, hits=3)[:1]
    row = list(of.embedded.dataset.captions).index(search.text)
    scores = model.score()(of.embedded.captions[[row]], of.embedded.images)[0]
    assert [hit.value for hit in search.hits] == pytest.approx(scores.sort().values.flip(0)[:3])
    assert search.verdict is None
