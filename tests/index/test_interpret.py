"""Interpreter: with a confidence, hits are calibrated, and so is "nothing matches"."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from pcme import SearchIndex
from pcme.errors import ConfigError
from pcme.index.interpret import Interpreter
from pcme.scores.combine import all_of
from pcme.uncertainty.risk_coverage import risk_coverage
from tests.index.worlds import split, untrained


def test_probabilities_are_calibrated_and_keep_their_order(calibrated):
    index, confidence = calibrated
    hits = index.search("a small red bird", k=40)
    assert hits.calibrated
    scores = np.array([hit.score for hit in hits])
    p = [hit.match_probability for hit in hits]
    assert p == pytest.approx(confidence.probability(scores).tolist())
    assert p == sorted(p, reverse=True)
    assert [hit.raw_probability for hit in hits] == pytest.approx(np.exp(scores).tolist())
    assert hits.query.expected_matches == pytest.approx(sum(p), rel=1e-6)
    assert hits.query.answerable is confidence.answerable(p[0], gallery=40)


def test_the_percentile_is_of_the_query_s_own_side(calibrated):
    index, confidence = calibrated
    text, image = index.search("a bird"), index.search(split(images=4).images.load(2))
    for hits, side in ((text, "captions"), (image, "images")):
        u = hits.query.uncertainty
        assert hits.query.percentile == pytest.approx(float(confidence.percentile(u, side=side)))
    assert hits.record()["query"]["percentile"] is not None


def test_a_combination_is_made_of_calibrated_parts(calibrated):
    index, _ = calibrated
    parts = [{hit.id: hit.match_probability for hit in index.search(text, k=40)} for text in ("a red bird", "water")]
    for hit in index.search(all_of(["a red bird", "water"]), k=40):
        assert hit.match_probability == pytest.approx(parts[0][hit.id] * parts[1][hit.id], rel=1e-6)
        assert hit.raw_probability is None


def test_embedded_queries_are_judged_like_their_texts(calibrated):
    index, _ = calibrated
    texts = ["a bird", "a red bird"]
    expected = index.search_many(texts)
    embedded = index._encoder.model.encode_captions(texts)
    found = index.search_many(embedded, query_kind="caption")
    for left, right in zip(found, expected, strict=True):
        assert left.ids == right.ids
        assert left.query.percentile == pytest.approx(right.query.percentile, rel=1e-3)
        assert left.query.answerable == right.query.answerable
    assert index.search_many(embedded)[0].query.percentile is None  # of which side is not known


def test_embeddings_in_memory_are_calibrated_by_a_confidence_that_is_given(calibrated):
    index, confidence = calibrated
    model, dataset = index._encoder.model, split(images=40)
    images = model.encode_images([dataset.images.load(n) for n in range(40)])
    ids = [dataset.images.id(n) for n in range(40)]
    other = SearchIndex.create("memory://", model, confidence=confidence)
    other.add(images, {"number": list(range(40))}, ids=ids)
    left, right = (one.search("a bird") for one in (other, index))
    assert left.calibrated
    assert left.ids == right.ids
    assert [ids[hit.metadata["number"]] for hit in left] == left.ids
    assert left.query.expected_matches == pytest.approx(right.query.expected_matches, rel=1e-5)
    empty = SearchIndex.create("memory://", model)  # another one, though the path is the same
    assert len(empty) == 0
    empty.add(images, ids=ids)
    assert empty.search("a bird").calibrated  # by the file beside the model that was loaded


def test_a_coverage_decides_what_is_answered(calibrated):
    index, confidence = calibrated
    odds = np.linspace(-3, 3, 40)  # of queries that all have a match
    known = replace(confidence, by_p=risk_coverage(odds, np.ones(40, bool)))
    for share in (0.3, 0.7, 1.0):
        interpreter = Interpreter.covering(is_probability=True, confidence=known, min_coverage=share)
        said = [interpreter.answerable(float(expit(one)), 40) for one in odds]
        assert said == [n >= 40 - round(40 * share) for n in range(40)]
    assert all(one.query.answerable for one in index.search_many(["a bird"], min_coverage=1.0))


def test_a_coverage_needs_a_calibration(tmp_path):
    untrained().save(tmp_path / "model")
    index = SearchIndex.create(tmp_path / "index", tmp_path / "model")
    index.add(split(images=4))
    with pytest.raises(ConfigError, match="pcme calibrate"):
        index.search("a bird", min_coverage=0.9)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_coverage_is_a_share(calibrated, share):
    with pytest.raises(ConfigError, match="min_coverage"):
        calibrated[0].search("a bird", min_coverage=share)
