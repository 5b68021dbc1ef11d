"""SearchIndex: what goes in comes out, in evaluation's order; what cannot be is a clear error."""

import pytest
import torch

from pcme import Model, Points, SearchIndex, scores
from pcme.errors import ConfigError, FormatError
from pcme.scores.combine import all_of
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


def test_items_are_read_by_id(unchanged):
    index, gaussians = unchanged
    found = index.items(["00007", "nobody", "00003"])
    assert [item.id for item in found] == ["00007", "00003"]
    for item, row in zip(found, (7, 3), strict=True):
        assert torch.equal(item.embedding.mean, gaussians.mean[row : row + 1])
        assert item.uncertainty == pytest.approx(float(gaussians.uncertainty()[row]))
        facts = {"kind": "image", "path": None, "text": None, "metadata": {"number": row}}
        assert item.record() == {"id": item.id, "uncertainty": item.uncertainty, **facts}
    assert index.items([]) == []


def test_items_of_points_have_no_uncertainty(tmp_path):
    index = SearchIndex.create(tmp_path / "index", dim=4)
    index.add(Points(torch.eye(4)[:, None]), ids=list("abcd"))
    (item,) = index.items(["c"])
    assert item.uncertainty is None
    assert torch.equal(item.embedding.x, torch.eye(4)[2:3, None])


def test_a_twin_writes_while_the_other_searches(fifty):
    index, items = fifty
    twin = index.twin()
    twin.add(items[0], ids=["again"])
    assert len(index) == len(twin) == 51
    assert set(index.search(items[0], k=2).ids) == {"00000", "again"}


def test_texts_and_images_of_many_queries_are_encoded_together(world, monkeypatch):
    index, model, dataset = world
    queries = ["a red bird", dataset.images.load(0), all_of(["water", dataset.images.load(1)]), "sky"]
    alone = [index.search(query) for query in queries]
    calls = []
    for name in ("encode_captions", "encode_images"):
        encode = getattr(Model, name)
        count = lambda self, items, encode=encode: calls.append(len(items)) or encode(self, items)  # noqa: E731
        monkeypatch.setattr(Model, name, count)
    together = index.search_many(queries)
    assert calls == [3, 2]
    assert [hits.ids for hits in together] == [hits.ids for hits in alone]
    for each, other in zip(together, alone, strict=True):
        assert each[0].match_probability == pytest.approx(other[0].match_probability, rel=1e-4)
    assert torch.allclose(index.embed(["sky", "water"]).mean, model.encode_captions(["sky", "water"]).mean)
    with pytest.raises(ConfigError, match="a combination has no embedding"):
        index.embed([all_of(["sky", "water"])])
