"""Requests to an application in this process, and threads that wait where a test wants them to."""

import asyncio
import threading
from contextlib import contextmanager

import httpx

TOKEN = "a-long-random-word"


class Client:
    """Sends requests to an application, each by itself or many at once."""

    def __init__(self, app, token=None):
        self.app = app
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, address, **options):
        return self.request("GET", address, **options)

    def post(self, address, **options):
        return self.request("POST", address, **options)

    def request(self, method, address, *, headers=None, **options):
        (answer,) = self.at_once([(method, address, {"headers": headers or {}, **options})])
        return answer

    def at_once(self, requests):
        """The answers to (method, address, options), which are all sent before one is awaited."""

        async def ask():
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
                client.headers.update(self.headers)
                return await asyncio.gather(
                    *(client.request(verb, address, **rest) for verb, address, rest in requests)
                )

        return asyncio.run(ask())


def problem(answer):
    """(status, detail) of an answer that is an error, and says so in the right form."""
    record = answer.json()
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    assert {"type", "title", "status", "detail", "request_id"} <= record.keys()
    assert (record["status"], record["request_id"]) == (answer.status_code, answer.headers["x-request-id"])
    return answer.status_code, record["detail"]


class Gate:
    """Work that waits until it may go on."""

    def __init__(self):
        self.begun, self.open = threading.Event(), threading.Event()

    def __call__(self, items):
        self.begun.set()
        assert self.open.wait(10)
        return items


@contextmanager
def blocked(batcher):
    """A batcher whose thread is held up within the block."""
    gate = Gate()
    future = batcher.submit(gate, "gate")
    assert gate.begun.wait(10)
    try:
        yield
    finally:
        gate.open.set()
        future.result(10)
