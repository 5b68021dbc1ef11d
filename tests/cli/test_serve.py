"""pcme serve: starts with one clear line, or says in one sentence why it does not."""

import sys

import pytest

from pcme import SearchIndex
from pcme.serve import server
from pcme.serve.server import listen
from tests.helpers import call, refused
from tests.index.worlds import untrained


@pytest.fixture
def birds(model, photos, tmp_path):
    """The folder of an index of three photographs."""
    SearchIndex.create(tmp_path / "birds", model).add(photos)
    return tmp_path / "birds"


@pytest.fixture
def started(monkeypatch):
    """The servers that were started; none runs."""
    made = []

    class Ended:
        def __init__(self, app, limits):
            made.append(app)

        def run(self, sockets):
            assert sockets[0].getsockname()[1]

    monkeypatch.setattr(server, "server_of", Ended)
    return made


def test_it_says_where_it_is(birds, photos, tmp_path, started, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    done = call("serve", birds, "--port", 0, "--images", photos, "--open", width=400)
    assert (done.exit_code, done.stdout, len(started)) == (0, "", 1)
    assert f"{birds}: 3 items at http://127.0.0.1:" in done.stderr
    assert "(read-only)" in done.stderr
    assert opened[0].startswith("http://127.0.0.1:")
    (tmp_path / "token").write_text("short")
    done = call("serve", birds, "--port", 0, "--token-file", tmp_path / "token", width=400)
    assert "changes need the token" in done.stderr
    assert "can be guessed" in done.stderr
    (tmp_path / "token").write_text("a-very-long-random-word")
    done = call("serve", birds, "--port", 0, "--token-file", tmp_path / "token", "--read-only", width=400)
    assert "(read-only)" in done.stderr
    assert "guessed" not in done.stderr
    assert len(opened) == 1


def test_an_index_of_vectors_needs_no_model(started, tmp_path):
    SearchIndex.create(tmp_path / "vectors", dim=4)
    assert "0 items" in call("serve", tmp_path / "vectors", "--port", 0).stderr


def test_what_is_wrong_is_said_in_a_sentence(birds, started, tmp_path, photos):
    untrained(seed=1).save(tmp_path / "other")
    (tmp_path / "empty").touch()
    mistakes = {
        (tmp_path / "nowhere",): "not an index",
        (birds, "--model", tmp_path / "other"): "the index was made with",
        (birds, "--model", tmp_path / "gone"): "no model there",
        (birds, "--host", "0.0.0.0"): "--public",
        (birds, "--token-file", tmp_path / "none"): "cannot be read as a token",
        (birds, "--token-file", tmp_path / "empty"): "one word of ASCII",
        (birds, "--images", tmp_path / "none"): "not a folder",
        (birds, "--port", 70000): "65535",
    }
    for words, message in mistakes.items():
        assert message in refused("serve", *words, *([] if "--port" in words else ["--port", 0]))
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        assert f"--port: {port} on 127.0.0.1 cannot be used" in refused("serve", birds, "--port", port)
    assert started == []


def test_what_is_not_installed_is_named(birds, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("pcme.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert "pip install 'pcme[index,serve]'" in refused("serve", birds)
