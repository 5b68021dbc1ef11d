"""Items: added, read and deleted over HTTP, with a token, by the rules of the index."""

import json

import pytest
from filelock import FileLock

from pcme import SearchIndex
from pcme.index import store
from pcme.serve.app import Setup, create_app
from tests.serve.asking import TOKEN, Client, problem
from tests.serve.conftest import HOSTILE

CAPTION = {"id": "c 1/é", "text": "a green bird", "metadata": {"year": 1999, "tags": ["a", "b"], "sure": True}}


def test_captions(changing):
    service, client = changing
    done = client.post("/v1/items", json={"items": [CAPTION]})
    assert (done.status_code, done.json()) == (
        200,
        {"added": 1, "replaced": 0, "present": 0, "rows": 16, "problems": {}},
    )
    item = client.get("/v1/items/c%201/%C3%A9").json()
    assert (item["id"], item["kind"], item["text"]) == (CAPTION["id"], "caption", "a green bird")
    assert item["metadata"] == CAPTION["metadata"]
    found = client.get("/v1/search", params={"q": "a green bird", "where": "array_has(tags, 'b')"}).json()
    assert [hit["id"] for hit in found["hits"]] == [CAPTION["id"]]
    assert client.post("/v1/items", json={"items": [CAPTION]}).json()["present"] == 1
    other = {**CAPTION, "text": "a brown bird"}
    assert "duplicate id" in problem(client.post("/v1/items", json={"items": [other]}))[1]
    assert client.post("/v1/items", json={"items": [other], "on_conflict": "replace"}).json()["replaced"] == 1
    assert client.get("/v1/items/c%201%2F%C3%A9").json()["text"] == "a brown bird"
    assert client.request("DELETE", "/v1/items/c%201/%C3%A9").json() == {"deleted": 1, "rows": 15}
    assert problem(client.request("DELETE", "/v1/items/c%201/%C3%A9"))[0] == 404
    assert problem(client.get("/v1/items/c%201/%C3%A9"))[0] == 404
    assert service.index.verify().ok


def test_vectors(changing, index):
    _, client = changing
    (first,) = index.items(["photos/00.png"])
    vector = {"mean": first.embedding.mean[0].tolist(), "log_sigma": first.embedding.log_sigma[0].tolist()}
    items = [{"id": "v1", "vector": vector, "text": "one"}, {"id": "v2", "vector": {**vector, "log_sigma": -2}}]
    assert client.post("/v1/items", json={"items": items}).json()["added"] == 2
    item = client.get("/v1/items/v1").json()
    assert (item["kind"], item["text"], item["uncertainty"]) == ("image", "one", first.uncertainty)
    found = client.post("/v1/search", json={"vector": vector, "k": 2}).json()
    assert {hit["id"] for hit in found["hits"]} == {"photos/00.png", "v1"}
    point = [{"id": "v3", "kind": "caption", "vector": vector}, {"id": "v4", "vector": vector}]
    assert "of one kind" in problem(client.post("/v1/items", json={"items": point}))[1]
    assert client.post("/v1/items", json={"items": point[:1]}).json()["added"] == 1
    assert client.get("/v1/items/v3").json()["kind"] == "caption"


def test_images_and_a_file_that_is_none(changing, world):
    _, client = changing
    good = (world / "photos" / "05.png").read_bytes()
    files = [("image", ("../x/new.png", good)), ("image", ("bad.png", b"nothing")), ("image", ("c.png", good))]
    named = json.dumps([{"metadata": {"year": 2050}}, {}, {"id": "my own", "metadata": {"note": HOSTILE}}])
    done = client.post("/v1/items", files=files, data={"items": named}).json()
    assert (done["added"], done["rows"]) == (2, 17)
    assert [each["where"] for each in done["problems"]["image-unreadable"]["items"]] == ["bad.png"]
    assert client.get("/v1/items/new.png").json()["metadata"] == {"year": 2050}
    assert client.get("/v1/items/my own").json()["metadata"] == {"note": HOSTILE}
    found = client.post("/v1/search", files={"image": ("q", good)}, data={"k": "3", "kind": "image"}).json()
    assert {hit["id"] for hit in found["hits"]} == {"photos/05.png", "new.png", "my own"}
    refused = client.post("/v1/items", files=[("image", ("worse.png", b"nothing"))])
    assert problem(refused) == (422, "none of these items can be used.")
    assert refused.json()["problems"]["image-unreadable"]["count"] == 1


def test_a_search_sees_what_another_process_writes(changing):
    service, client = changing
    before = client.get("/v1/describe").json()
    other = SearchIndex.open(service.index.path)
    other.add(["a red bird on water"], ids=["later"], kind="caption")
    found = client.get("/v1/search", params={"q": "a red bird on water", "kind": "caption", "k": 1}).json()
    assert found["hits"][0]["id"] == "later"
    after = client.get("/v1/describe").json()
    assert (before["rows"], after["rows"]) == (15, 16)
    assert after == {**other.describe().record(), "read_only": False, "images": False}


def test_an_index_that_another_process_writes_is_busy(changing, monkeypatch):
    service, client = changing
    monkeypatch.setattr(store, "WAIT", 0.05)
    with FileLock(f"{service.index.path}/{store.LOCK}"):
        answer = client.post("/v1/items", json={"items": [CAPTION]})
        status, detail = problem(answer)
        assert (status, "locked by another writer" in detail) == (503, True)
        assert int(answer.headers["retry-after"]) >= 1
        assert client.get("/v1/search", params={"q": "a red bird"}).status_code == 200  # readers never wait
    assert client.post("/v1/items", json={"items": [CAPTION]}).json()["added"] == 1


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"items": []}, 422, "items"),
        ({"items": [{"id": " ", "text": "a"}]}, 422, "must not be empty"),
        ({"items": [{"id": "a\n", "text": "a"}]}, 422, "id"),
        ({"items": [{"id": "a", "text": "?!"}]}, 422, "none of these items"),
        ({"items": [{"id": "a"}]}, 422, "need a text"),
        ({"items": [{"id": "a", "text": "a", "kind": "image"}]}, 422, "multipart/form-data"),
        ({"items": [{"id": "a", "text": "bird"}, {"id": "a", "text": "bird"}]}, 422, "given twice"),
        ({"items": [{"id": "a", "text": "bird"}], "on_conflict": "guess"}, 422, "on_conflict"),
        ({"items": [{"id": "a", "vector": {"mean": [1.0]}}]}, 422, "dimension 16, got 1"),
        (
            {"items": [{"id": "a", "vector": {"mean": [1.0]}}, {"id": "b", "text": "b"}]},
            422,
            "in every item or in none",
        ),
        ({"items": [{"id": "a", "text": "bird", "metadata": {"year": "new"}}]}, 422, 'column "year"'),
        ({"items": [{"id": "a", "text": "bird", "metadata": {"mean": 1}}]}, 400, 'column: "mean"'),
        ({"items": [{"id": "a", "text": "bird", "metadata": {"n": 2**63}}]}, 422, "metadata"),
        ({"items": [{"id": "a", "text": "bird", "metadata": {"n": {"m": 1}}}]}, 422, "metadata"),
        ({"items": [{"id": "a", "text": "bird", "metadata": {"n": []}}]}, 422, "metadata"),
        ({"items": [{"id": "a", "text": "bird", "path": "/etc/passwd"}]}, 422, "path"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_mistake_is_explained_and_nothing_is_written(refusing, body, status, message):
    found, detail = problem(refusing.post("/v1/items", json=body))
    assert (found, message in detail) == (status, True), detail


@pytest.fixture(scope="module")
def refusing(shared):
    """A client with the token, whose requests change nothing."""
    before = shared.index.ids()
    yield Client(create_app(shared, Setup(token=TOKEN)), token=TOKEN)
    assert shared.index.ids() == before


@pytest.mark.parametrize(
    ("method", "address", "options"),
    [
        ("POST", "/v1/items", {"json": {"items": [CAPTION]}}),
        ("POST", "/v1/items", {"files": {"image": ("a.png", b"x")}}),
        ("DELETE", "/v1/items/photos/00.png", {}),
    ],
)
def test_a_change_needs_the_token(shared, method, address, options):
    before = shared.index.ids()
    guarded = Client(create_app(shared, Setup(token=TOKEN)))
    for header in (None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"):
        headers = {} if header is None else {"Authorization": header}
        answer = guarded.request(method, address, headers=headers, **options)
        assert problem(answer)[0] == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
    headers = {"Authorization": f"Bearer {TOKEN}", "Origin": "http://evil.example"}
    assert problem(guarded.request(method, address, headers=headers, **options))[0] == 403
    for setup, reason in ((Setup(), "--token-file"), (Setup(token=TOKEN, read_only=True), "--read-only")):
        closed = Client(create_app(shared, setup), token=TOKEN)
        status, detail = problem(closed.request(method, address, **options))
        assert (status, reason in detail) == (403, True)
    assert shared.index.ids() == before
