"""A service under load: refusals that say when to come back, time-outs, readiness."""

import asyncio
import threading
import time

import pytest

from pcme.serve import service as module
from tests.serve.asking import blocked, problem

RED = {"params": {"q": "a red bird"}}


def test_a_full_queue_answers_429_and_when_to_come_back(serving):
    service, client = serving(waiting=2, seconds=10)
    with blocked(service._searches):
        answers = None

        def ask():
            nonlocal answers
            answers = client.at_once([("GET", "/v1/search", RED)] * 5)

        asking = threading.Thread(target=ask)
        asking.start()
        while len(service._searches) < 2:
            time.sleep(0.005)
        asking.join(0.3)
        assert asking.is_alive()  # two wait, and get their answers below
    asking.join(10)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 429, 429, 429]
    for answer in answers:
        if answer.status_code == 429:
            assert int(answer.headers["retry-after"]) >= 1
            assert "2 requests wait already" in problem(answer)[1]


def test_too_many_uploads_are_refused(serving, world):
    service, client = serving(uploads=1)
    image = {"files": {"image": ("a.png", (world / "photos" / "00.png").read_bytes())}}
    with blocked(service._searches), service.uploading():
        status, detail = problem(client.post("/v1/search", **image))
    assert (status, "1 uploads are under way" in detail) == (429, True)
    assert client.post("/v1/search", **image).status_code == 200


def test_a_search_that_takes_too_long_is_given_up(serving):
    service, client = serving(seconds=0.1)
    with blocked(service._searches):
        answer = client.get("/v1/search", **RED)
        status, detail = problem(answer)
        assert (status, "longer than 0.1 s" in detail, answer.headers["retry-after"]) == (503, True, "1")
    assert client.get("/v1/search", **RED).status_code == 200


def test_health_and_readiness(serving, monkeypatch):
    service, client = serving()
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready", "rows": 15}
    monkeypatch.setattr(module, "READY_SECONDS", 0.05)
    with blocked(service._searches):
        assert "not ready" in problem(client.get("/readyz"))[1]
        assert client.get("/healthz").status_code == 200
    service.close()
    assert problem(client.get("/readyz")) == (503, "not ready: the server is ending. Try again later.")
    assert problem(client.get("/v1/search", **RED))[0] == 503


def test_a_defect_is_a_problem_without_its_details(serving, monkeypatch, caplog):
    service, client = serving()
    monkeypatch.setattr(type(service.index), "search_many", lambda *args, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # what uvicorn logs
        client.get("/v1/search", **RED, headers={"X-Request-ID": "lost"})
    assert "request lost failed: ZeroDivisionError" in caplog.text

    async def answer():
        sent = []

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http", "method": "GET", "path": "/v1/search", "raw_path": b"/v1/search", "query_string": b"q=red",
            "headers": [(b"host", b"localhost")], "client": None, "server": None, "scheme": "http", "root_path": "",
        }  # fmt: skip
        with pytest.raises(ZeroDivisionError):
            await client.app(scope, receive, send)
        return sent

    start, body = asyncio.run(answer())
    assert start["status"] == 500
    assert b"division" not in body["body"]
    assert {b"content-security-policy", b"x-request-id"} <= {name for name, _ in start["headers"]}
