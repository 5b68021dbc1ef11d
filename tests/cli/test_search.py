"""pcme search: a table for people, exactly the promised JSON for machines, no tracebacks."""

import json
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pytest
import torch

from pcme import Points, SearchIndex
from pcme.scores.combine import all_of, any_of, but_not
from pcme.uncertainty.calibrate import calibrate
from tests.helpers import call, picture, record, refused
from tests.index.worlds import split, untrained


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with a model, three pictures, and an index of them and of two captions."""
    folder = tmp_path_factory.mktemp("world")
    untrained().save(folder / "model")
    for n, name in enumerate("abc"):
        picture(folder / "photos" / f"{name}.png", colour=(80 * n, 90, 200))
    index = SearchIndex.create(folder / "index", folder / "model")
    index.add(folder / "photos", {"year": [1999, 2005, 2020]})
    index.add(["a red bird", "a blue bird"], kind="caption")
    return folder


def test_people_get_a_table(world):
    done = call("search", world / "index", "a red bird", "--kind", "image", "--k", 2)
    assert done.exit_code == 0, done.output
    assert all(text in done.stdout for text in ("rank", "photos/", "year"))
    assert "not calibrated" in done.stderr


def test_machines_get_exactly_what_is_promised_by_a_text_or_a_picture(world):
    found = record("search", world / "index", "a red bird", "--k", 3)
    assert list(found) == ["query", "hits", "searched", "calibrated", "exact"]
    assert found["query"]["note"] is None
    assert found["query"]["percentile"] is None
    assert isinstance(found["query"]["answerable"], bool)
    for rank, hit in enumerate(found["hits"], start=1):
        assert (hit["rank"], hit["kind"]) == (rank, "caption" if hit["text"] else "image")
        assert 0 <= hit["match_probability"] <= 1
    found = record("search", world / "index", world / "photos/b.png", "--kind", "image", "--k", 1)
    assert [hit["id"] for hit in found["hits"]] == ["photos/b.png"]


def test_filters_thresholds_and_exactness(world):
    found = record("search", world / "index", "a bird", "--where", "year > 2000", "--exact")
    assert {hit["metadata"]["year"] for hit in found["hits"]} == {2005, 2020}
    all_hits = record("search", world / "index", "a bird")["hits"]
    middle = sorted(hit["match_probability"] for hit in all_hits)[2]
    above = record("search", world / "index", "a bird", "--threshold", middle)["hits"]
    assert [hit["id"] for hit in above] == [hit["id"] for hit in all_hits][: len(above)]
    assert len(above) == sum(hit["match_probability"] >= middle for hit in all_hits)
    done = call("search", world / "index", "a bird", "--threshold", 1)
    assert (done.exit_code, "no hit has a match probability of 1 or more" in done.stderr) == (0, True)


def test_combinations(world):
    index = SearchIndex.open(world / "index")
    both = record("search", world / "index", "a red bird", "--and", "water")
    assert both == json.loads(json.dumps(index.search(all_of(["a red bird", "water"])).record()))
    options = ["--or", "sky", "--not", "water"]
    found = record("search", world / "index", "a red bird", *options)
    query = but_not(any_of(["a red bird", "sky"]), "water")
    assert found == json.loads(json.dumps(index.search(query).record()))


def test_words_that_nobody_knows_are_marked(world):
    done = call("search", world / "index", "xylophone")
    assert (done.exit_code, "knows none of these words" in done.stderr) == (0, True)
    assert "nothing among 5 items seems to match" in done.stdout
    assert record("search", world / "index", "xylophone")["query"]["answerable"] is False


def test_metadata_of_any_type_are_json(world, tmp_path):
    index = SearchIndex.create(tmp_path / "index", world / "model")
    columns = {
        "seen": (date(2001, 5, 1), "2001-05-01"),
        "at": (datetime(2001, 5, 1, 12, 30), "2001-05-01T12:30:00"),
        "price": (Decimal("1.5"), 1.5),
        "raw": (b"ab", "ab"),
        "weight": (float("nan"), None),
    }
    index.add(["a red bird"], {name: [value] for name, (value, _) in columns.items()}, kind="caption")
    (hit,) = record("search", tmp_path / "index", "a bird")["hits"]
    assert hit["metadata"] == {name: text for name, (_, text) in columns.items()}


def test_a_threshold_needs_probabilities(tmp_path):
    index = SearchIndex.create(tmp_path / "index", dim=4)
    index.add(Points(torch.eye(4)[:, None]), ids=list("abcd"))
    np.save(tmp_path / "query.npy", np.eye(4, dtype=np.float32)[2])  # a single vector is a query
    assert record("search", tmp_path / "index", tmp_path / "query.npy")["hits"][0]["id"] == "c"
    message = refused("search", tmp_path / "index", tmp_path / "query.npy", "--threshold", 0.5)
    assert "no match probability" in message


def test_a_vector_is_not_judged_by_another_model_s_confidence(world, tmp_path):
    other = untrained(seed=1)
    other.save(tmp_path / "other")
    calibrate(tmp_path / "other", split(images=20)).confidence.save(tmp_path / "other")
    np.save(tmp_path / "query.npy", np.ones((1, 16), np.float32))
    message = refused("search", world / "index", tmp_path / "query.npy", "--model", tmp_path / "other")
    assert "the index was made with" in message
