"""Hits: all that is known of each, as Python objects and as JSON."""

import json

import numpy as np
import pytest

from pcme.errors import ConfigError


def test_hits_carry_all_that_is_known(world):
    index, model, dataset = world
    hits = index.search(dataset.captions[0], k=2, kind="caption")
    hit = hits[0]
    assert (hit.rank, hit.text) == (1, dataset.captions[dataset.caption_ids.index(hit.id)])
    assert (hit.metadata["split"], hit.metadata["image"]) == ("test", hit.id.partition("#")[0])
    assert hit.match_probability == hit.raw_probability == pytest.approx(np.exp(hit.score))
    query, row = model.encode_captions([dataset.captions[0]]), model.encode_captions([hit.text])
    for uncertainty, embedding in ((hit.uncertainty, row), (hits.query.uncertainty, query)):
        assert uncertainty == pytest.approx(float(embedding.uncertainty()), rel=1e-5)
    assert (hits.calibrated, hits.exact, hits.searched) == (False, True, len(dataset.captions))
    total = model.score().probability(query, model.encode_captions(list(dataset.captions))).sum()
    assert hits.query.expected_matches == pytest.approx(float(total), rel=1e-4)
    assert hits.query.percentile is None
    assert hits.query.answerable is (hit.match_probability >= 0.5)


def test_the_record_has_exactly_the_keys_that_are_promised(world):
    index, _, dataset = world
    record = json.loads(json.dumps(index.search("a red bird xylophone", k=1).record()))
    assert list(record) == ["query", "hits", "searched", "calibrated", "exact"]
    assert (record["searched"], record["calibrated"], record["exact"]) == (24 + 72, False, True)
    assert list(record["query"]) == ["uncertainty", "percentile", "expected_matches", "answerable", "note"]
    caption = index.search(dataset.captions[3], k=1, kind="caption").record()["hits"][0]
    keys = ["rank", "id", "kind", "path", "text", "match_probability", "uncertainty", "metadata"]
    assert list(record["hits"][0]) == list(caption) == keys
    text = dataset.captions[dataset.caption_ids.index(caption["id"])]
    assert (caption["kind"], caption["path"], caption["text"]) == ("caption", None, text)


def test_hits_above_a_threshold(calibrated):
    hits = calibrated[0].search("a bird", k=40)
    middle = hits[20].match_probability
    assert hits.above(middle).ids == [hit.id for hit in hits if hit.match_probability >= middle]
    with pytest.raises(ConfigError, match=r"\[0, 1\]"):
        hits.above(1.1)
