"""The page is plain files: no inline script or style, nothing from elsewhere, all of it there."""

import re
from html.parser import HTMLParser

import pytest

from pcme.serve.page import page_files


class Reader(HTMLParser):
    """Notes what a page loads and what it would run in place."""

    def __init__(self):
        super().__init__()
        self.loaded, self.inline, self._open = [], [], None

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.loaded += [named[key] for key in ("src", "href", "action") if key in named]
        self.inline += [key for key in named if key.startswith("on") or key == "style"]
        self._open = tag if tag in ("script", "style") else None

    def handle_data(self, data):
        if self._open and data.strip():
            self.inline.append(data)


@pytest.fixture
def start(client):
    answer = client.get("/")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    reader = Reader()
    reader.feed(answer.text)
    return reader


def test_nothing_runs_in_place_and_all_it_loads_is_served(client, start):
    assert start.inline == []
    assert {"/page/app.js", "/page/style.css", "/page/favicon.svg"} <= {*start.loaded}
    types = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
    for address in start.loaded:
        answer = client.get(address)
        assert answer.status_code == 200
        if address != "/":
            assert answer.headers["content-type"].startswith(types[address.rpartition(".")[2]])


def test_nothing_comes_from_elsewhere():
    for name, file in page_files().items():
        text = file.content.decode()
        addresses = set(re.findall(r"https?://[^\s\"'<>)]+", text)) - {"http://www.w3.org/2000/svg"}
        assert addresses == set(), name


def test_data_are_set_as_text():
    script = page_files()["app.js"].content.decode()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function", script)
    assert "textContent" in script


def test_a_file_that_is_not_of_the_page_is_not_found(client):
    for name in ("app.py", "nowhere.js", "%2e%2e", "page/app.js"):
        assert client.get(f"/page/{name}").status_code == 404
