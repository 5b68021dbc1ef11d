"""Every request has an id, a line in the log if that is wanted, and is counted."""

import json
import re

import pytest

from pcme.serve.access import line_by_line
from pcme.serve.app import Setup, create_app
from tests.serve.asking import Client


@pytest.fixture
def logged(shared):
    """(client, the lines of the log so far)."""

    def make(*, as_json):
        lines = []
        log = line_by_line(lines.append, as_json=as_json)
        return Client(create_app(shared, Setup(log=log))), lines

    return make


def test_the_log_is_json_lines_with_the_id_of_the_request(logged):
    client, lines = logged(as_json=True)
    client.get("/v1/search?q=a+secret+bird", headers={"X-Request-ID": "my-id.1"})
    client.get("/nowhere/%0Aforged%20%22")
    first, second = map(json.loads, lines)
    assert first.keys() == {"time", "request_id", "client", "method", "path", "status", "bytes", "milliseconds"}
    found = {key: first[key] for key in ("request_id", "client", "method", "path", "status")}
    expected = {"request_id": "my-id.1", "client": "127.0.0.1", "method": "GET", "path": "/v1/search", "status": 200}
    assert found == expected  # without the question
    assert first["bytes"] > 100
    assert (second["path"], second["status"]) == ("/nowhere/%0Aforged%20%22", 404)


def test_the_log_is_a_line_for_people_otherwise(logged):
    client, lines = logged(as_json=False)
    name = client.get("/healthz").headers["x-request-id"]
    (line,) = lines
    assert re.search(rf" 127\.0\.0\.1 GET /healthz 200 [\d.]+ ms {name}$", line)


@pytest.mark.parametrize("name", ["", "two words", "x" * 65, 'a"b', "é"])
def test_an_id_that_is_not_plain_is_replaced(client, name):
    given = client.get("/healthz", headers=[("X-Request-ID", name.encode("utf-8"))]).headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{32}", given)


def test_each_request_has_an_id_of_its_own(client):
    assert client.get("/healthz").headers["x-request-id"] != client.get("/healthz").headers["x-request-id"]


def test_metrics_count_by_route_not_by_address(serving):
    _, client = serving()
    client.get("/v1/search?q=bird")
    client.get("/v1/search?q=bird")
    client.get("/v1/items/nobody")
    client.get("/nowhere/1")
    client.get("/nowhere/2")
    client.request("BREW", "/v1/search")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    text = answer.text
    for line in (
        'pcme_requests_total{method="GET",route="/v1/search",status="200"} 2.0',
        'pcme_requests_total{method="GET",route="/v1/items/{id:path}",status="404"} 1.0',
        'pcme_requests_total{method="GET",route="unmatched",status="404"} 2.0',
        'pcme_request_seconds_count{method="GET",route="/v1/search"} 2.0',
        'pcme_waiting{queue="search"} 0.0',
    ):
        assert line in text
    assert 'method="other"' in text
    assert "BREW" not in text
    assert "nowhere" not in text
    assert "process_resident_memory_bytes" in text
