"""The OpenAPI document describes what the server does: its examples work, and what it allows is no defect."""

import json

import pytest

from pcme.serve.schemas import AddRequest, EmbedRequest, SearchRequest

MODELS = (AddRequest, EmbedRequest, SearchRequest)


@pytest.fixture(scope="module")
def document(client):
    answer = client.get("/openapi.json")
    assert answer.status_code == 200
    return answer.json()


def references(value):
    """Every $ref below a value."""
    if isinstance(value, dict):
        yield from (inner for key, inner in value.items() if key == "$ref")
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


def test_it_names_the_operations_and_every_reference_resolves(document):
    found = {(path, method) for path, item in document["paths"].items() for method in item}
    assert {
        ("/v1/search", "get"), ("/v1/search", "post"), ("/v1/embed", "get"), ("/v1/embed", "post"),
        ("/v1/items", "post"), ("/v1/items/{id}", "get"), ("/v1/items/{id}", "delete"), ("/v1/describe", "get"),
        ("/v1/thumbnails/{id}", "get"), ("/v1/images/{id}", "get"), ("/healthz", "get"), ("/readyz", "get"),
        ("/metrics", "get"),
    } == found  # fmt: skip
    for reference in references(document):
        target = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


def test_every_operation_may_answer_a_problem_and_changes_need_the_token(document):
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert "application/problem+json" in operation["responses"]["default"]["content"], (path, method)
            changes = path.startswith("/v1/items") and method in ("post", "delete")
            assert ("security" in operation) == changes


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_examples_are_requests(document, model):
    examples = document["components"]["schemas"][model.__name__]["examples"]
    assert examples
    for example in examples:
        model.model_validate_json(json.dumps(example))


def test_the_example_of_an_answer_has_the_fields_of_a_real_one(document, client):
    (example,) = document["components"]["schemas"]["SearchAnswer"]["examples"]
    real = client.get("/v1/search?q=a+red+bird&k=1").json()
    assert example.keys() == real.keys()
    assert example["query"].keys() == real["query"].keys()
    assert example["hits"][0].keys() == real["hits"][0].keys()


def test_described_fields_are_the_fields_of_answers(document, client):
    schemas = document["components"]["schemas"]
    for name, address in (
        ("SearchAnswer", "/v1/search?q=bird"),
        ("DescribeAnswer", "/v1/describe"),
        ("ItemAnswer", "/v1/items/photos/00.png"),
        ("EmbedAnswer", "/v1/embed?q=bird"),
    ):
        assert schemas[name]["properties"].keys() == client.get(address).json().keys()
