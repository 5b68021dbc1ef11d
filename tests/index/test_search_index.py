"""SearchIndex: what goes in comes out, in evaluation's order; what cannot be is a clear error."""

import pytest
import torch

from pcme import SearchIndex, scores
from pcme.errors import ConfigError, FormatError
from tests.index.worlds import drawn, image_ids, split, untrained

METHODS = ["pcme-overlap", "pcme", "pcme++", "pcme-isotropic", "pcme-mu", "vse0"]


@pytest.mark.parametrize("method", METHODS)
def test_a_search_has_the_order_of_an_evaluation(tmp_path, method):
    model, dataset = untrained(method), split()
    index = SearchIndex.create(tmp_path / "index", model)
    index.add(dataset)
    ids, images = image_ids(dataset), model.encode_images(list(map(dataset.images.load, range(24))))
    captions = model.encode_captions(list(dataset.captions))
    ranking = model.score().topk(captions, images, k=10)
    results = index.search_many([captions[n] for n in range(len(captions))], k=10)
    assert [hits.ids for hits in results] == [[ids[n] for n in row] for row in ranking.ids.tolist()]
    scores = torch.tensor([[hit.score for hit in hits] for hits in results])
    assert torch.allclose(scores, ranking.scores.float(), rtol=1e-4, atol=1e-5)


def test_an_index_is_made_where_nothing_is(tmp_path):
    drawn(tmp_path / "index", 1)
    (tmp_path / "file").touch()
    for path in ("index", "file"):
        with pytest.raises(ConfigError, match="exists already"):
            drawn(tmp_path / path, 1)
    with pytest.raises((FormatError, ConfigError), match="file"):  # a folder that cannot be written
        drawn(tmp_path / "file" / "index", 1)
    with pytest.raises(FormatError, match="not an index"):
        SearchIndex.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(ConfigError, match="model: missing"):
        SearchIndex.create(tmp_path / "other")


def test_a_score_may_have_parameters(tmp_path):
    index = SearchIndex.create(tmp_path / "index", dim=2, spread="diagonal", score="overlap:scale=3,shift=-2")
    assert index.settings.score == scores.create("overlap", scale=3.0, shift=-2.0)
    assert SearchIndex.open(tmp_path / "index").settings == index.settings
