"""Whatever is sent, the server does not fail: hypothesis writes bodies, forms and addresses."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pcme.serve.app import Setup, create_app
from tests.serve.asking import TOKEN, Client

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("q", "id", "vector", "all_of", "any_of", "but_not", "k", "where", "kind", "exact", "min_coverage", "texts")
VALUES = ANYTHING | st.sampled_from(["a red bird", 3, "image", "year > 2000", ["a bird"], {"mean": [0.5] * 16}])
BODIES = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=4)
PART = st.tuples(
    st.sampled_from([b'name="image"; filename="a.png"', b'name="image"', b'name="k"', b"", b'filename="b"']),
    st.binary(max_size=60),
)


@pytest.fixture(scope="module")
def harmless(shared):
    """A client with the token, whose fuzz is never a valid change."""
    before = shared.index.ids()
    yield Client(create_app(shared, Setup(token=TOKEN)), token=TOKEN)
    assert shared.index.ids() == before


@pytest.mark.parametrize("address", ["/v1/search", "/v1/embed"])
@settings(max_examples=60)
@given(body=BODIES)
def test_json(harmless, address, body):
    answer = harmless.post(address, content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code < 500, answer.text


@settings(max_examples=60)
@given(body=st.dictionaries(st.sampled_from(["items", "kind", "on_conflict"]), VALUES, max_size=3))
def test_json_that_would_change_something(harmless, body):
    answer = harmless.post("/v1/items", content=json.dumps(body), headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text


# Starlette leaves the file of a part without an end to the garbage collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("address", ["/v1/search", "/v1/embed", "/v1/items"])
@settings(max_examples=40)
@given(parts=st.lists(PART, max_size=3), tail=st.binary(max_size=20))
def test_forms(harmless, address, parts, tail):
    body = b"".join(b"--b\r\nContent-Disposition: form-data; %b\r\n\r\n%b\r\n" % part for part in parts)
    headers = {"Content-Type": "multipart/form-data; boundary=b"}
    for content in (body + b"--b--\r\n" + tail, body + tail):
        answer = harmless.post(address, content=content, headers=headers)
        assert answer.status_code < 500, answer.text


@settings(max_examples=40)
@given(data=st.binary(max_size=400), start=st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff\xe0"]))
def test_uploads(harmless, data, start):
    answer = harmless.post("/v1/search", files={"image": ("a.png", start + data)})
    assert answer.status_code in (200, 422), answer.text


@settings(max_examples=60)
@given(where=st.text(alphabet="year id='0()<>!%_-.,\"` andornotlike", max_size=30), name=st.text(max_size=20))
def test_addresses(harmless, where, name):
    answer = harmless.get("/v1/search", params={"q": "a bird", "where": where})
    assert answer.status_code < 500, answer.text
    for address in ("items", "images", "thumbnails"):
        path = "".join(f"%{byte:02X}" for byte in name.encode("utf-8", "replace"))
        assert harmless.get(f"/v1/{address}/{path}").status_code in (404, 422)
