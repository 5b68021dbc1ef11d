"""Encoder: the model of an index, found again, and no other."""

import pytest

from pcme import SearchIndex
from pcme.errors import ConfigError, FormatError
from tests.index.worlds import untrained


def test_an_index_is_the_same_after_opening_it_again_and_another_model_is_refused(world, tmp_path):
    index, model, _ = world
    untrained(seed=1).save(tmp_path / "other")
    with pytest.raises(FormatError, match="the index was made with"):
        SearchIndex.open(index.path, tmp_path / "other").search("a bird")
    again = SearchIndex.open(index.path, model)
    assert again.search("a bird").record() == index.search("a bird").record()
    assert len(again) == len(index) == 24 + 72


def test_a_model_that_has_moved_must_be_shown(tmp_path):
    untrained().save(tmp_path / "model")
    SearchIndex.create(tmp_path / "index", tmp_path / "model").add(["a red bird"], kind="caption")
    (tmp_path / "model").rename(tmp_path / "moved")
    with pytest.raises(ConfigError, match="no model there"):
        SearchIndex.open(tmp_path / "index").search("a bird")
    assert len(SearchIndex.open(tmp_path / "index", tmp_path / "moved").search("a bird")) == 1


def test_an_index_without_a_model_takes_vectors_only(unchanged):
    index, items = unchanged
    with pytest.raises(ConfigError, match="model: the index has none"):
        index.search("a bird")
    hits = index.search(items[7])
    assert (hits.ids[0], hits[0].match_probability, hits.query.answerable) == ("00007", None, None)  # no probability


def test_a_model_with_several_points_an_item_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="one point per item"):
        SearchIndex.create(tmp_path / "index", untrained("pvse"))
