"""SearchIndex: what goes in comes out, in evaluation's order; what cannot be is a clear error."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pcme import Gaussian, Points, SearchIndex
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError, FormatError, ShapeError
from pcme.scores.combine import all_of, any_of, but_not
from tests.helpers import picture, random_gaussians, unless_annotations_are_enforced
from tests.index.worlds import drawn, names, split, untrained

METHODS = ["pcme-overlap", "pcme", "pcme++", "pcme-isotropic", "pcme-mu", "vse0"]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """(index of images and captions, model, split) with the default method."""
    folder = tmp_path_factory.mktemp("world")
    model, dataset = untrained(), split()
    model.save(folder / "model")
    index = SearchIndex.create(folder / "index", folder / "model")
    index.add(dataset)
    index.add(dataset, kind="caption")
    return index, model, dataset


@pytest.mark.parametrize("method", METHODS)
def test_a_search_has_the_order_of_an_evaluation(tmp_path, method):
    model, dataset = untrained(method), split()
    index = SearchIndex.create(tmp_path / "index", model)
    index.add(dataset)
    images = model.encode_images([dataset.images.load(n) for n in range(24)])
    captions = model.encode_captions(list(dataset.captions))
    ids = [dataset.images.id(n) for n in range(24)]
    ranking = model.score().topk(captions, images, k=10)
    found = index.search_many([captions[n] for n in range(len(captions))], k=10)
    assert [hits.ids for hits in found] == [[ids[n] for n in row] for row in ranking.ids.tolist()]
    scores = torch.tensor([[hit.score for hit in hits] for hits in found])
    assert torch.allclose(scores, ranking.scores.float(), rtol=1e-4, atol=1e-5)


def test_both_kinds_find_both_kinds(world):
    index, model, dataset = world
    text, image = dataset.captions[5], dataset.images.load(7)
    encoded = {str: model.encode_captions([text]), Image.Image: model.encode_images([image])}
    galleries = {
        "image": model.encode_images([dataset.images.load(n) for n in range(24)]),
        "caption": model.encode_captions(list(dataset.captions)),
    }
    ids = {
        "image": [dataset.images.id(n) for n in range(24)],
        "caption": list(dataset.caption_ids),
    }
    for query, embedding in ((text, encoded[str]), (image, encoded[Image.Image])):
        for kind, gallery in galleries.items():
            hits = index.search(query, k=3, kind=kind)
            best = model.score().topk(embedding, gallery, k=3).ids[0].tolist()
            assert hits.ids == [ids[kind][n] for n in best]
            assert {hit.kind for hit in hits} == {kind}
    assert index.search(image, k=1, kind="image").ids == [dataset.images.id(7)]


def test_hits_carry_all_that_is_known(world):
    index, model, dataset = world
    hits = index.search(dataset.captions[0], k=2, kind="caption")
    hit = hits[0]
    assert (hit.rank, hit.text) == (1, dataset.captions[dataset.caption_ids.index(hit.id)])
    assert hit.metadata["split"] == "test"
    assert hit.metadata["image"] == hit.id.partition("#")[0]
    assert hit.match_probability == hit.raw_probability == pytest.approx(np.exp(hit.score))
    row = model.encode_captions([hit.text])
    assert hit.uncertainty == pytest.approx(float(row.uncertainty()), rel=1e-5)
    assert (hits.calibrated, hits.exact, hits.searched) == (False, True, len(dataset.captions))
    own = model.encode_captions([dataset.captions[0]])
    assert hits.query.uncertainty == pytest.approx(float(own.uncertainty()), rel=1e-5)
    captions = model.encode_captions(list(dataset.captions))
    total = model.score().probability(own, captions).sum()
    assert hits.query.expected_matches == pytest.approx(float(total), rel=1e-4)
    assert hits.query.percentile is None
    assert hits.query.answerable is (hit.match_probability >= 0.5)


def test_the_record_has_exactly_the_keys_that_are_promised(world):
    index, _, dataset = world
    record = json.loads(json.dumps(index.search("a red bird xylophone", k=1).record()))
    assert list(record) == ["query", "hits", "searched", "calibrated", "exact"]
    assert (record["searched"], record["calibrated"], record["exact"]) == (24 + 72, False, True)
    query = ["uncertainty", "percentile", "expected_matches", "answerable", "note"]
    assert list(record["query"]) == query
    hit = ["rank", "id", "kind", "path", "text", "match_probability", "uncertainty", "metadata"]
    assert list(record["hits"][0]) == hit
    caption = index.search(dataset.captions[3], k=1, kind="caption").record()["hits"][0]
    assert (caption["kind"], caption["path"]) == ("caption", None)
    assert caption["text"] == dataset.captions[dataset.caption_ids.index(caption["id"])]


def test_an_index_is_the_same_after_opening_it_again(world):
    index = world[0]
    again = SearchIndex.open(index.path)
    assert again.search("a red bird").record() == index.search("a red bird").record()
    assert len(again) == len(index) == 24 + 72


def test_a_filter_comes_before_the_ranking(world):
    index, _, dataset = world
    kept = [n for n in range(24) if dataset.images.id(n) >= "test/0003"]
    hits = index.search("a bird", k=50, where="kind = 'image' AND id >= 'test/0003'")
    assert sorted(hits.ids) == [dataset.images.id(n) for n in kept]
    assert hits.searched == len(kept)
    alone = index.search("a bird", k=50, kind="image")
    assert hits.ids == [one for one in alone.ids if one >= "test/0003"]


def test_a_filter_that_leaves_nothing_finds_nothing(world):
    hits = world[0].search("a bird", where="id = 'nobody'")
    assert (len(hits), hits.searched, hits.query.expected_matches) == (0, 0, 0.0)
    assert hits.query.answerable is False


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("colour = 'red'", "No field named colour.*columns id, kind, path, text, split"),
        ("number >", "cannot be used"),
        ("split", "does not return a boolean"),
        ("split = 3 +", "cannot be used"),
    ],
)
def test_a_bad_filter_names_the_columns(world, where, message):
    with pytest.raises(ConfigError, match=message):
        world[0].search("a bird", where=where)
    with pytest.raises(ConfigError, match=message):
        world[0].delete(where=where)


def test_more_than_there_are_gives_all(world):
    assert len(world[0].search("a bird", k=1000, kind="image")) == 24


def test_combined_queries(world):
    index, model, dataset = world
    images = model.encode_images([dataset.images.load(n) for n in range(24)])
    red, water = (model.encode_captions([text]) for text in ("a red bird", "water"))
    log_p = (model.score()(red, images).double() + model.score()(water, images).double())[0]
    hits = index.search(all_of(["a red bird", "water"]), k=24, kind="image")
    best = [dataset.images.id(n) for n in log_p.argsort(descending=True, stable=True)]
    assert hits.ids == best
    assert hits[0].score == pytest.approx(float(log_p.max()), rel=1e-5)
    assert hits[0].raw_probability is None
    assert hits.query.expected_matches == pytest.approx(float(log_p.exp().sum()), rel=1e-4)
    both = index.search(any_of(["a red bird", dataset.images.load(3)]), k=3, kind="image")
    assert both[0].id == dataset.images.id(3)
    image = dataset.images.load(3)
    own = index.search(image, k=1, kind="image")[0].match_probability
    without = index.search(but_not(image, image), k=24, kind="image")
    (same,) = (hit for hit in without if hit.id == dataset.images.id(3))
    assert same.match_probability == pytest.approx(own * (1 - own), rel=1e-3)


def test_one_gaussian_of_several_is_searched_as_one(world):
    index, model, _ = world
    query = all_of(["a red bird", "water"], how="density")
    encoded = query.encoded(lambda text: model.encode_captions([text]))
    assert index.search(query).ids == index.search(encoded.embedding).ids


def test_words_that_nobody_knows_are_marked(world):
    hits = world[0].search("xylophone quartz")
    assert hits.query.answerable is False
    assert "knows none of these words: xylophone quartz" in hits.query.note


@pytest.mark.parametrize("query", ["", "   ", "?!"])
def test_a_query_without_words_is_an_error(world, query):
    with pytest.raises(DataError, match="no words"):
        world[0].search(query)


def test_a_picture_that_cannot_be_read_is_an_error(world, tmp_path):
    (tmp_path / "empty.jpg").touch()
    with pytest.raises(DataError, match=r"empty\.jpg: the file has 0 bytes"):
        world[0].search(tmp_path / "empty.jpg")
    with pytest.raises(DataError, match=r"none\.jpg: no such file"):
        world[0].search(tmp_path / "none.jpg")


@unless_annotations_are_enforced
def test_other_queries_are_errors(world):
    index = world[0]
    with pytest.raises(ConfigError, match="query: must be"):
        index.search(7)
    with pytest.raises(ShapeError, match="dimension 16, got 5"):
        index.search(random_gaussians(1, 5, seed=0))
    with pytest.raises(DataError, match="query: must be one item, got 2"):
        index.search(random_gaussians(2, 16, seed=0))
    with pytest.raises(ConfigError, match="k must be at least 1"):
        index.search("a bird", k=0)
    with pytest.raises(ConfigError, match='image or caption, got "film"'):
        index.search("a bird", kind="film")


def test_an_empty_index_says_so(tmp_path):
    index, _ = drawn(tmp_path / "index", 0)
    with pytest.raises(DataError, match="is empty"):
        index.search(random_gaussians(1, 4, seed=0))


def test_another_model_is_refused(world, tmp_path):
    index, model, _ = world
    untrained(seed=1).save(tmp_path / "other")
    other = SearchIndex.open(index.path, tmp_path / "other")
    with pytest.raises(FormatError, match="the index was made with"):
        other.search("a bird")
    assert SearchIndex.open(index.path, model).search("a bird").ids == index.search("a bird").ids


def test_a_model_that_has_moved_must_be_shown(tmp_path):
    untrained().save(tmp_path / "model")
    index = SearchIndex.create(tmp_path / "index", tmp_path / "model")
    index.add(["a red bird"], kind="caption")
    (tmp_path / "model").rename(tmp_path / "moved")
    with pytest.raises(ConfigError, match="no model there"):
        SearchIndex.open(tmp_path / "index").search("a bird")
    assert len(SearchIndex.open(tmp_path / "index", tmp_path / "moved").search("a bird")) == 1


def test_an_index_without_a_model_takes_vectors_only(tmp_path):
    index, items = drawn(tmp_path / "index")
    with pytest.raises(ConfigError, match="model: the index has none"):
        index.search("a bird")
    best = index.search(items[7])
    assert best.ids[0] == "00007"
    assert best[0].match_probability is None  # csd is no probability
    assert best.query.answerable is None


def test_points_among_gaussians_have_no_spread(tmp_path):
    index, items = drawn(tmp_path / "index")
    index.add(Points(items.mean[:1, None]), ids=["point"])
    query = Gaussian(items.mean[:1], items.log_sigma[:1])
    assert index.search(query, k=1).ids == ["point"]  # as near as 00000, and narrower
    assert index.search(Points(items.mean[:1, None]), k=1).ids == ["point"]


def test_points_do_not_go_with_densities(tmp_path):
    index, _ = drawn(tmp_path / "index", score="overlap")
    with pytest.raises(ShapeError, match="divides by σ"):
        index.add(Points(torch.zeros(1, 1, 4)), ids=["point"])
    with pytest.raises(ConfigError, match="points have none"):
        SearchIndex.create(tmp_path / "other", dim=4, score="overlap")


def test_adding_twice_changes_nothing(tmp_path):
    index, items = drawn(tmp_path / "index")
    again = index.add(items, ids=names(50))
    assert (again.added, again.replaced, again.present) == (0, 0, 50)
    assert len(index) == 50


def test_replacing(tmp_path):
    index, items = drawn(tmp_path / "index")
    index.search(items[0])  # so that a stale copy would be noticed
    other = random_gaussians(2, 4, seed=9)
    done = index.add(other, {"number": [-1, -2]}, ids=["00003", "new"], on_conflict="replace")
    assert (done.added, done.replaced, len(index)) == (1, 1, 51)
    assert index.search(other[0], k=1)[0].metadata == {"number": -1}
    assert index.search(items[3], k=1).ids != ["00003"]
    with pytest.raises(DataError, match='"00003" is in the index already'):
        index.add(other[:1], ids=["00003"], on_conflict="error")


def test_deleting(tmp_path):
    index, items = drawn(tmp_path / "index")
    index.search(items[0])
    assert index.delete(["00007", "nobody"]) == 1
    assert index.delete("00008") == 1
    assert index.delete(where="number >= 40") == 10
    assert len(index) == 38
    for gone in (7, 8, 45):
        assert f"{gone:05d}" not in index.search(items[gone], k=38).ids
    index.add(items[7], ids=["00007"])
    assert index.search(items[7], k=1).ids == ["00007"]


@pytest.mark.parametrize("arguments", [{}, {"ids": ["a"], "where": "true"}])
def test_deleting_needs_one_way_to_say_what(tmp_path, arguments):
    index, _ = drawn(tmp_path / "index")
    with pytest.raises(ConfigError, match="either ids or a filter"):
        index.delete(**arguments)
    with pytest.raises(ConfigError, match="the filter is empty"):
        index.delete(where=" ")


def test_ids_with_quotes_are_ids(tmp_path):
    index, _ = drawn(tmp_path / "index", 0)
    items = random_gaussians(2, 4, seed=0)
    index.add(items, ids=["it's", "id' OR 'a'='a"])
    assert index.delete("it's") == 1
    assert index.search(items[0]).ids == ["id' OR 'a'='a"]


def test_metadata_have_types_and_come_later(tmp_path):
    index, items = drawn(tmp_path / "index")
    more = random_gaussians(2, 4, seed=3)
    rows = [{"place": "Oslo", "tags": ["a", "b"]}, {"number": 7.0}]
    index.add(more, rows, ids=["x", "y"])
    assert index.search(more[0], k=1)[0].metadata == {"place": "Oslo", "tags": ["a", "b"]}
    assert index.search(items[0], where="place = 'Oslo'").ids == ["x"]
    assert index.search(items[0], where="array_has(tags, 'b')").ids == ["x"]
    assert set(index.search(items[0], where="number = 7").ids) == {"00007", "y"}
    assert index.describe().columns == {
        "number": "int64",
        "place": "string",
        "tags": "list<item: string>",
    }


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"number": ["seven", "eight"]}, '"number": holds int64, got string'),
        ({"number": [1.5, 2.5]}, '"number": holds int64, got double'),
        ({"mean": [1, 2]}, '"mean" cannot be a column of metadata'),
        ({"a": [1, "b"]}, "no type fits all values"),
        ({"a": [1]}, "metadata: must be one per item"),
    ],
)
def test_metadata_that_do_not_fit_are_errors(tmp_path, metadata, message):
    index, items = drawn(tmp_path / "index")
    with pytest.raises((DataError, ConfigError), match=message):
        index.add(items[:2], metadata, ids=["x", "y"])
    assert len(index) == 50


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["x", "x"], '"x" is given twice'),
        (["x", ""], "text that is not empty"),
        (["x"], "ids: must be one per embedding"),
        (None, "embeddings need ids"),
        (["x", "y" * 5000], "at most 4,096 characters"),
    ],
)
def test_ids_that_are_none_are_errors(tmp_path, ids, message):
    index, items = drawn(tmp_path / "index")
    with pytest.raises(DataError, match=message):
        index.add(items[:2], ids=ids)


def test_embeddings_that_do_not_fit_are_errors(tmp_path):
    index, _ = drawn(tmp_path / "index")
    with pytest.raises(ShapeError, match="dimension 4, got 5"):
        index.add(random_gaussians(1, 5, seed=0), ids=["x"])
    broken = Gaussian(torch.full((1, 4), torch.nan), torch.zeros(1, 4))
    with pytest.raises(DataError, match="NaN or infinite"):
        index.add(broken, ids=["x"])
    assert len(index) == 50


def test_a_folder_of_pictures(tmp_path):
    index = SearchIndex.create(tmp_path / "index", untrained())
    for name in ("photos/a.png", "photos/deep/b.jpg", "photos/.hidden/c.jpg"):
        picture(tmp_path / name, colour=(len(name) * 9, 60, 40))
    (tmp_path / "photos/empty.jpg").touch()
    (tmp_path / "photos/notes.txt").write_text("no picture")
    problems = Problems()
    seen = []
    done = index.add(
        tmp_path / "photos", problems=problems, progress=lambda *counts: seen.append(counts)
    )
    assert (done.added, seen, problems.counts) == (2, [("items", 3, 3)], {"image-empty": 1})
    hits = index.search(tmp_path / "photos/a.png")
    assert hits.ids == ["photos/a.png", "photos/deep/b.jpg"]
    assert Path(hits[0].path) == (tmp_path / "photos/a.png").resolve()
    with pytest.raises(DataError, match="0 bytes"):
        index.add(tmp_path / "photos/empty.jpg")
    with pytest.raises(DataError, match="no images"):
        index.add(tmp_path / "index")
    with pytest.raises(DataError, match="neither a folder nor a file"):
        index.add(tmp_path / "nowhere")


def test_pictures_and_captions_one_by_one(tmp_path):
    index = SearchIndex.create(tmp_path / "index", untrained())
    path = picture(tmp_path / "a.png")
    index.add([path, Image.new("RGB", (20, 20), "red")], ids=["file", "memory"])
    index.add(["a red bird", "a blue bird"], {"by": ["Ann", "Bob"]}, kind="caption")
    assert index.describe().kinds == {"image": 2, "caption": 2}
    assert index.search("a red bird", k=1, kind="caption")[0].metadata == {"by": "Ann"}
    with pytest.raises(DataError, match="images in memory need ids"):
        index.add([Image.new("RGB", (20, 20))])
    with pytest.raises(DataError, match="no words"):
        index.add(["..."], kind="caption")


def test_an_index_is_made_where_nothing_is(tmp_path):
    drawn(tmp_path / "index", 1)
    with pytest.raises(ConfigError, match="exists already"):
        drawn(tmp_path / "index", 1)
    with pytest.raises(FormatError, match="not an index"):
        SearchIndex.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(ConfigError, match="model: missing"):
        SearchIndex.create(tmp_path / "other")


def test_a_model_with_several_points_an_item_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="an index holds one point per item"):
        SearchIndex.create(tmp_path / "index", untrained("pvse"))


def test_a_reader_sees_what_another_has_written(tmp_path):
    index, items = drawn(tmp_path / "index")
    reader = SearchIndex.open(tmp_path / "index")
    assert len(reader.search(items[0], k=100)) == 50
    index.add(random_gaussians(5, 4, seed=5), ids=names(5, 50))
    index.delete(["00001"])
    index.compact()
    found = reader.search(items[0], k=100)
    assert sorted(found.ids) == sorted([*names(1), *names(53, 2)])
    assert found.ids == SearchIndex.open(tmp_path / "index").search(items[0], k=100).ids
