"""Searching over HTTP is searching in Python: the same hits for the same question."""

import io
import json

import pytest
import torch
from PIL import Image

from pcme import Gaussian
from pcme.scores.combine import all_of, any_of, but_not
from tests.serve.asking import problem

RED, BLUE, WATER = "a red bird", "a blue bird", "sky and water"


def test_a_text(client, index, plain):
    found = client.get("/v1/search", params={"q": RED, "k": 3})
    assert found.status_code == 200
    assert found.json() == plain(index.search(RED, 3).record())
    assert list(found.json()) == ["query", "hits", "searched", "calibrated", "exact"]
    with_all = {"q": RED, "k": 5, "where": "year > 2003 AND note LIKE '<script>%'", "kind": "image", "exact": "true"}
    expected = index.search(RED, 5, where="year > 2003 AND note LIKE '<script>%'", kind="image", exact=True)
    assert client.get("/v1/search", params=with_all).json() == plain(expected.record())
    assert len(client.get("/v1/search", params={"q": RED}).json()["hits"]) == 10


@pytest.mark.parametrize(
    ("body", "query"),
    [
        ({"q": RED}, RED),
        ({"query": RED}, RED),
        ({"q": RED, "all_of": [WATER]}, all_of([RED, WATER])),
        ({"all_of": [RED, {"text": WATER}]}, all_of([RED, WATER])),
        ({"any_of": [RED, BLUE]}, any_of([RED, BLUE])),
        ({"q": RED, "any_of": [BLUE], "but_not": [WATER]}, but_not(any_of([RED, BLUE]), WATER)),
    ],
)
def test_combinations(client, index, plain, body, query):
    found = client.post("/v1/search", json={**body, "k": 15})
    assert found.json() == plain(index.search(query, 15).record())


def test_a_picture(client, index, plain, world):
    path = world / "photos" / "07.png"
    upload = {"image": ("any name.png", path.read_bytes(), "image/png")}
    found = client.post("/v1/search", files=upload, data={"k": "2", "kind": "image"}).json()
    assert found == plain(index.search(path, 2, kind="image").record())
    assert found["hits"][0]["id"] == "photos/07.png"
    fields = {"k": "4", "all_of": [RED, BLUE], "but_not": WATER}
    found = client.post("/v1/search", files=upload, data=fields).json()
    query = but_not(all_of([Image.open(path), RED, BLUE]), WATER)
    assert found == plain(index.search(query, 4).record())


def test_an_item_and_a_vector(client, index, plain):
    (item,) = index.items(["photos/03.png"])
    found = client.post("/v1/search", json={"id": item.id, "k": 2}).json()
    assert found == plain(index.search_many([item.embedding], 2, query_kind="image")[0].record())
    assert found["hits"][0]["id"] == item.id
    vector = {"mean": item.embedding.mean[0].tolist(), "log_sigma": item.embedding.log_sigma[0].tolist()}
    found = client.post("/v1/search", json={"vector": vector, "k": 2}).json()
    assert found == plain(index.search(item.embedding, 2).record())
    both = client.post("/v1/search", json={"all_of": [{"id": item.id}, {"vector": vector}], "k": 2}).json()
    assert both == plain(index.search(all_of([item.embedding] * 2), 2).record())
    for point in (vector["mean"], {"mean": vector["mean"]}):  # a list alone is the mean
        assert "divides by σ, got a point" in problem(client.post("/v1/search", json={"vector": point}))[1]
    wide = Gaussian(item.embedding.mean, torch.full((1, 1), -1.0))
    found = client.post("/v1/search", json={"vector": {"mean": vector["mean"], "log_sigma": -1}, "k": 2}).json()
    assert found == plain(index.search(wide, 2).record())


def test_many_at_once_get_the_hits_that_each_gets_alone(serving, index):
    service, client = serving()
    texts = [f"{colour} {thing}" for colour in ("red", "blue", "small", "green") for thing in ("bird", "sky", "water")]
    requests = [("GET", "/v1/search", {"params": {"q": text, "k": 15}}) for text in texts]
    answers = client.at_once(requests)
    for text, answer in zip(texts, answers, strict=True):
        found, alone = answer.json(), index.search(text, 15)
        assert [hit["id"] for hit in found["hits"]] == alone.ids
        p = [hit.match_probability for hit in alone]
        assert [hit["match_probability"] for hit in found["hits"]] == pytest.approx(p, rel=1e-4)
    passes = service.metrics.registry.get_sample_value("pcme_batch_size_count")
    assert service.metrics.registry.get_sample_value("pcme_batch_size_sum") == len(texts)
    assert passes < len(texts)


def test_embeddings(client, index, world):
    path = world / "photos" / "02.png"
    of_texts = client.post("/v1/embed", json={"texts": [RED, BLUE]}).json()["embeddings"]
    of_text = client.get("/v1/embed", params={"q": BLUE}).json()["embeddings"]
    of_image = client.post("/v1/embed", files={"image": ("a", path.read_bytes())}).json()["embeddings"]
    expected = index.embed([RED, BLUE, path])
    for row, made in enumerate([*of_texts, *of_image]):
        assert made["mean"] == pytest.approx(expected.mean[row].tolist(), rel=1e-4, abs=1e-6)
        assert made["log_sigma"] == pytest.approx(expected.log_sigma[row].tolist(), rel=1e-4, abs=1e-6)
        assert made["uncertainty"] == pytest.approx(float(expected.uncertainty()[row]), rel=1e-4)
    assert client.post("/v1/embed", json={"q": BLUE}).json()["embeddings"] == of_text
    assert of_text[0]["mean"] == pytest.approx(of_texts[1]["mean"], rel=1e-4, abs=1e-6)


MISTAKES = [
    ({}, 422, "q"),
    ({"q": ""}, 422, "q"),
    ({"q": "?!"}, 422, "query: has no words"),
    ({"q": "x" * 2001}, 422, "2000"),
    ({"q": RED, "k": 0}, 422, "k"),
    ({"q": RED, "k": 1001}, 422, "1000"),
    ({"q": RED, "k": "many"}, 422, "k"),
    ({"q": RED, "kind": "video"}, 422, "kind"),
    ({"q": RED, "where": "colour = 1"}, 400, "No field named colour"),
    ({"q": RED, "where": "year >"}, 400, "cannot be used"),
    ({"q": RED, "where": "id = repeat('a', 1000000000)"}, 400, 'has the function "repeat"'),
    ({"q": RED, "where": "year) OR (true"}, 400, "brackets in pairs"),
    ({"q": RED, "where": "x" * 2001}, 422, "2000"),
    ({"q": RED, "min_coverage": 0.5}, 400, "pcme calibrate"),
    ({"q": RED, "min_coverage": 2}, 422, "min_coverage"),
]


@pytest.mark.parametrize(("parameters", "status", "message"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_in_the_address_is_explained(client, parameters, status, message):
    found, detail = problem(client.get("/v1/search", params=parameters))
    assert (found, message in detail) == (status, True), detail


IN_BODIES = [
    ({}, 400, "empty query"),
    ({"but_not": [RED]}, 400, "empty query"),
    ({"q": RED, "colour": 1}, 422, "colour"),
    ({"q": RED, "all_of": [{"text": RED, "id": "a"}]}, 422, "one of text, id and vector"),
    ({"q": RED, "all_of": [RED] * 16}, 422, "at most 16 parts"),
    ({"all_of": [RED] * 17}, 422, "16"),
    ({"id": "nobody"}, 422, '"nobody" is not in the index'),
    ({"vector": {"mean": [1.0, 2.0]}}, 422, "dimension 16, got 2"),
    ({"all_of": [RED, {"vector": {"mean": [1.0, 2.0]}}]}, 422, "dimension 16, got 2"),
    ({"vector": {"mean": [1e300] * 16}}, 422, "vector.mean"),
    ({"vector": {"mean": [0.1] * 16, "log_sigma": [0.1] * 3}}, 422, "log_sigma"),
    ({"vector": {"mean": []}}, 422, "vector.mean"),
    ({"q": "\ud800"}, 400, "JSON"),
    ({"\ud800": 1}, 400, "JSON"),
]


@pytest.mark.parametrize(("body", "status", "message"), IN_BODIES, ids=lambda value: ascii(value)[:40])
def test_a_mistake_in_a_body_is_explained(client, body, status, message):
    headers = {"Content-Type": "application/json"}
    found, detail = problem(client.post("/v1/search", content=json.dumps(body), headers=headers))
    assert (found, message in detail) == (status, True), detail


@pytest.mark.parametrize(
    ("content", "kind", "status", "message"),
    [
        (b"{", "application/json", 400, "JSON"),
        (b'{"k": NaN}', "application/json", 422, "k"),
        (b"[" * 100_000, "application/json", 400, "JSON"),
        (b"\xff\xfe", "application/json", 400, "JSON"),
        (b"q=a", "application/x-www-form-urlencoded", 415, "Content-Type"),
        (b"<q/>", "text/xml", 415, "Content-Type"),
        (b"--x", "multipart/form-data", 400, "boundary"),
        (b"nothing", "multipart/form-data; boundary=x", 400, ""),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_body_that_is_none_is_explained(client, content, kind, status, message):
    answer = client.post("/v1/search", content=content, headers={"Content-Type": kind})
    found, detail = problem(answer)
    assert (found, message in detail) == (status, True), detail


def test_a_form_without_a_picture_or_with_too_many_is_explained(client, world):
    image = (world / "photos" / "00.png").read_bytes()
    wide = io.BytesIO()
    Image.new("1", (8000, 8000)).save(wide, "PNG")
    for files, data, status, message in (
        ([("image", ("a", b""))], {}, 422, "image: the file has 0 bytes"),
        ([("image", ("a", b"GIF89a"))], {}, 422, "image: "),
        ([("image", ("a", image[:200]))], {}, 422, "image: "),
        ([("image", ("a", wide.getvalue()))], {}, 422, "8000 x 8000 pixels, over 50,000,000"),
        ([("image", ("a", image)), ("image", ("b", image))], {}, 400, "Too many files"),
        ([("photo", ("a", image))], {}, 422, 'field "image"'),
        ([("image", ("a", image))], {"k": ["1", "2"]}, 422, "several 'k'"),
        ([("image", ("a", image))], {"vector": "[1]"}, 422, "vector"),
        ([("image", ("a", image))], {f"x{n}": "1" for n in range(65)}, 400, "Too many fields"),
    ):
        found, detail = problem(client.post("/v1/search", files=files, data=data))
        assert (found, message in detail) == (status, True), detail


def test_hostile_metadata_are_data(client):
    answer = client.get("/v1/search", params={"q": RED, "k": 1, "kind": "image"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["hits"][0]["metadata"]["note"].startswith("<script>")
