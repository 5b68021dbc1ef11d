"""What the OpenAPI document allows, and what it forbids, is answered without a defect: Schemathesis writes requests."""

import shutil

import pytest
import requests
import schemathesis
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from pcme import SearchIndex
from pcme.serve.app import Setup, create_app
from pcme.serve.service import Service
from tests.serve.asking import TOKEN, Client

ADDRESS = "http://127.0.0.1:8000"
OPERATIONS = [
    ("/v1/search", "GET"), ("/v1/search", "POST"), ("/v1/embed", "GET"), ("/v1/embed", "POST"), ("/v1/items", "POST"),
    ("/v1/items/{id}", "GET"), ("/v1/items/{id}", "DELETE"), ("/v1/thumbnails/{id}", "GET"),
    ("/v1/images/{id}", "GET"),
]  # fmt: skip


@pytest.fixture(scope="module")
def anyone(world, tmp_path_factory):
    """A client with the token, of a copy that may be changed."""
    folder = shutil.copytree(world / "index", tmp_path_factory.mktemp("schemathesis") / "index")
    service = Service(SearchIndex.open(folder))
    yield Client(create_app(service, Setup(token=TOKEN, images=world / "photos")), token=TOKEN)
    assert service.index.verify().ok
    service.close()


@pytest.fixture(scope="module")
def schema(anyone):
    return schemathesis.openapi.from_dict(anyone.get("/openapi.json").json())


# Schemathesis draws from the module random while it writes some requests
@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisDeprecationWarning")
@pytest.mark.parametrize(("path", "method"), OPERATIONS, ids=lambda value: value)
@settings(max_examples=8)
@given(data=st.data())
def test_no_request_is_a_defect(anyone, schema, path, method, data):
    mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
    case = data.draw(schema[path][method].as_strategy(generation_mode=mode))
    sent = requests.Request(**case.as_transport_kwargs(base_url=ADDRESS)).prepare()
    headers = {name: value for name, value in sent.headers.items() if name.lower() not in ("authorization", "cookie")}
    address = sent.url.removeprefix(ADDRESS)
    answer = anyone.request(sent.method, address, content=sent.body or b"", headers=headers)
    assert answer.status_code < 500, answer.text
