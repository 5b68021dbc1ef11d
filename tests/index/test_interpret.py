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
from tests.index.worlds import image_ids, split


def test_probabilities_are_calibrated_and_keep_their_order(calibrated):
    index, confidence = calibrated
    hits = index.search("a small red bird", k=40)
    assert hits.calibrated
    scores, p = np.array([hit.score for hit in hits]), [hit.match_probability for hit in hits]
    assert p == pytest.approx(confidence.probability(scores).tolist())
    assert p == sorted(p, reverse=True)
    assert [hit.raw_probability for hit in hits] == pytest.approx(np.exp(scores).tolist())
    assert hits.query.expected_matches == pytest.approx(sum(p), rel=1e-6)
    assert hits.query.answerable is confidence.answerable(p[0], gallery=40)


def test_the_percentile_is_of_the_query_s_own_side(calibrated):
    index, confidence = calibrated
    queries = {"captions": "a bird", "images": split(images=4).images.load(2)}
    for side, query in queries.items():
        info = index.search(query).query
        assert info.percentile == pytest.approx(float(confidence.percentile(info.uncertainty, side=side)))


def test_a_combination_is_made_of_calibrated_parts(calibrated):
    index, _ = calibrated
    parts = [{hit.id: hit.match_probability for hit in index.search(text, k=40)} for text in ("a red bird", "water")]
    for hit in index.search(all_of(["a red bird", "water"]), k=40):
        assert hit.match_probability == pytest.approx(parts[0][hit.id] * parts[1][hit.id], rel=1e-6)
        assert hit.raw_probability is None


def test_embedded_queries_are_judged_like_their_texts(calibrated):
    index, _ = calibrated
    texts = ["a bird", "a red bird"]
    embedded = index._encoder.model.encode_captions(texts)
    for left, right in zip(index.search_many(embedded, query_kind="caption"), index.search_many(texts), strict=True):
        assert (left.ids, left.query.answerable) == (right.ids, right.query.answerable)
        assert left.query.percentile == pytest.approx(right.query.percentile, rel=1e-3)
    assert index.search_many(embedded)[0].query.percentile is None  # of which side is not known


def test_embeddings_in_memory_are_calibrated_by_a_confidence_that_is_given(calibrated):
    index, confidence = calibrated
    model, dataset = index._encoder.model, split(images=40)
    ids, images = image_ids(dataset), model.encode_images(list(map(dataset.images.load, range(40))))
    other = SearchIndex.create("memory://", model, confidence=confidence)
    other.add(images, {"number": list(range(40))}, ids=ids)
    left, right = (searched.search("a bird") for searched in (other, index))
    assert (left.calibrated, left.ids) == (True, right.ids)
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
        answers = [interpreter.answerable(float(p), 40) for p in expit(odds)]
        assert answers == [n >= 40 - round(40 * share) for n in range(40)]
    assert index.search("a bird", min_coverage=1.0).query.answerable


def test_a_coverage_is_a_share_and_needs_a_calibration(calibrated, world):
    for share in (-0.1, 1.5, float("nan")):
        with pytest.raises(ConfigError, match="min_coverage"):
            calibrated[0].search("a bird", min_coverage=share)
    with pytest.raises(ConfigError, match="pcme calibrate"):
        world[0].search("a bird", min_coverage=0.9)
