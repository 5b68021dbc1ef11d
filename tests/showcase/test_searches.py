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


def test_hits_are_the_best_of_the_gallery_and_right_by_the_truth_for_queries_from_narrow_to_wide(subject):
    p = np.exp(np.asarray(subject.model.score()(subject.embedded.captions, subject.embedded.images)))
    texts, matches = list(subject.embedded.dataset.captions), subject.matches.dense()
    *searches, last = by_captions(subject, None, count=5, hits=4)
    rows = [texts.index(search.text) for search in searches]
    for search, row in zip(searches, rows, strict=True):
        order = np.argsort(-p[row], kind="stable")[:4]
        assert [hit.value for hit in search.hits] == pytest.approx(p[row][order], rel=1e-4)
        assert [hit.relevant for hit in search.hits] == matches[row][order].tolist()
        assert search.expected == pytest.approx(p[row].sum(), rel=1e-5)
        assert search.matches == matches[row].sum()
    widths = subject.captions.log_sigma.mean(1)[rows].tolist()
    assert widths == sorted(widths)
    assert (last.matches, any(hit.relevant for hit in last.hits)) == (0, False)  # the last caption fits nothing


def test_an_image_finds_captions_of_different_texts_and_no_more_images_ask_than_there_are(subject):
    assert len(by_images(subject, None, count=1000)) == len(subject.embedded.dataset.images)
    for search in by_images(subject, None, count=3, hits=5):
        texts = [hit.text for hit in search.hits]
        assert len(set(texts)) == len(texts) == 5
        assert search.picture.startswith("data:image/jpeg;base64,")
    hits = [ShownHit(name, None, text, 0.5, relevant=True) for name, text in zip("abcd", "xyxz", strict=True)]
    assert [hit.id for hit in _of_different_texts(hits)] == ["a", "b", "d"]


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
