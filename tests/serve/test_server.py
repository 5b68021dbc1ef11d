"""A real server on loopback: it answers, ends gracefully, and loses nothing that it acknowledged when it is killed."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pytest

from pcme import SearchIndex
from pcme.errors import ConfigError
from pcme.serve.app import Setup, create_app
from pcme.serve.batching import ClosedError
from pcme.serve.limits import Limits
from pcme.serve.server import Address, listen, server_of
from pcme.serve.service import Service
from tests.serve.asking import TOKEN, blocked, problem

ASKED = {"q": "a red bird", "k": "2"}


@contextmanager
def running(index, setup=None, **limits):
    """(server, service, address) of a server in a thread; it is told to end with the block."""
    service = Service(SearchIndex.open(index), Limits(**limits))
    with listen("127.0.0.1", 0) as listening:
        server = server_of(create_app(service, setup), service.limits)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield server, service, f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(20)
            assert not thread.is_alive()


def sent(address, lines):
    """The first line of the answer to a request that is written by hand."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return connection.recv(65536).split(b"\r\n")[0].decode()


def test_it_answers_over_a_socket(world, index):
    with running(world / "index", Setup(images=world / "photos")) as (_, _, address), httpx.Client() as client:
        found = client.get(f"{address}/v1/search", params=ASKED)
        assert [hit["id"] for hit in found.json()["hits"]] == index.search("a red bird", 2).ids
        assert "server" not in found.headers
        with ThreadPoolExecutor(16) as threads:
            answers = list(threads.map(lambda n: client.get(f"{address}/v1/search", params=ASKED), range(64)))
        assert {answer.status_code for answer in answers} == {200}
        assert {tuple(hit["id"] for hit in answer.json()["hits"]) for answer in answers} == {
            tuple(index.search("a red bird", 2).ids)
        }
        for path in ("/v1/images/../../../../etc/passwd", "/v1/images/..%2f..%2fetc%2fpasswd", "/page/../../app.py"):
            assert sent(address, [f"GET {path} HTTP/1.1", "Host: localhost"]).startswith("HTTP/1.1 404")
        assert sent(address, ["GET / HTTP/1.1", "Host: evil.example"]).startswith("HTTP/1.1 400")
        assert sent(address, ["GET / HTTP/1.0"]).startswith("HTTP/1.1 400")


def test_ending_finishes_what_is_under_way(world):
    with running(world / "index") as (server, service, address), ThreadPoolExecutor(1) as threads:
        with blocked(service._searches):
            under_way = threads.submit(httpx.get, f"{address}/v1/search", params=ASKED)
            while not len(service._searches):
                time.sleep(0.01)
            server.should_exit = True
            time.sleep(0.3)
            with pytest.raises(httpx.ConnectError):
                httpx.get(f"{address}/healthz")
            assert not under_way.done()
        assert under_way.result(10).status_code == 200
    with pytest.raises(ClosedError):  # the queue was drained and closed
        service._searches.submit(len, [])


def test_a_port_that_is_taken_or_a_host_that_is_none_is_explained():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"--port: {port} on 127\.0\.0\.1 cannot be used, Address already in use"
        ):
            listen("127.0.0.1", port)
    with pytest.raises(ConfigError, match="cannot be used"):
        listen("203.0.113.1", 0)  # an address of no machine


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.1", "http://127.0.0.1:80/"), ("::1", "http://[::1]:80/"), ("", "http://127.0.0.1:80/")]
)
def test_the_address_is_what_a_browser_takes(host, url):
    assert Address(host).url(80) == url


def test_nothing_that_was_acknowledged_is_lost_by_a_kill(world, tmp_path):
    shutil.copytree(world / "index", tmp_path / "index")
    (tmp_path / "token").write_text(TOKEN)
    command = [sys.executable, "-m", "pcme", "serve", str(tmp_path / "index"), "--port", "0", "--json-log"]
    command += ["--token-file", str(tmp_path / "token")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    address = next(found[0] for line in process.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
    acknowledged, stop = [], threading.Event()

    def add(number):
        with httpx.Client(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
            for n in range(10_000):
                items = [{"id": f"{number}-{n}-{part}", "text": "a red bird"} for part in range(3)]
                try:
                    answer = client.post(f"{address}/v1/items", json={"items": items})
                except httpx.HTTPError:
                    return
                assert answer.status_code == 200, problem(answer)
                acknowledged.extend(item["id"] for item in items)
                stop.set()

    adding = [threading.Thread(target=add, args=(number,)) for number in range(2)]
    for thread in adding:
        thread.start()
    assert stop.wait(20)
    time.sleep(0.3)
    process.kill()
    for thread in adding:
        thread.join(10)
    assert process.wait(10) == -9
    log = [json.loads(line) for line in process.stderr]
    process.stderr.close()
    assert {record["path"] for record in log} == {"/v1/items"}
    index = SearchIndex.open(tmp_path / "index")
    ids = index.ids()
    assert len(acknowledged) > 3
    assert set(acknowledged) <= set(ids)
    assert len(ids) == len(set(ids))
    assert len([name for name in ids if name not in set(index.ids("year >= 2000"))]) % 3 == 0  # each request as a whole
    assert index.verify().ok
