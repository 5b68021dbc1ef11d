"""pcme data fetch: what it tells, asks, writes and refuses, against a server on loopback."""

import pytest

from pcme.data.fetch import registry
from pcme.data.fetch.web import WebFile
from tests.data.fetch.published import publish
from tests.data.fetch.serving import serving, unused
from tests.helpers import call, printed, record, refused


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with serving() as running:
        yield running


@pytest.fixture
def cub(server, tmp_path, monkeypatch):
    """The folder for a small CUB that is served."""
    publish("cub", server, tmp_path / "cub", monkeypatch)
    return tmp_path / "cub"


def test_it_tells_fetches_and_checks(cub, server):
    text = printed("data", "fetch", "cub", "--out", cub, "--yes", width=300)
    assert "non-commercial research" in text
    assert server.url("CUB_200_2011.tgz") in text
    assert "CUB_200_2011.tgz was fetched" in text
    assert "3 images" in text
    assert "no problems" in text
    assert f"{cub}: everything was there" in printed("data", "fetch", "cub", "--out", cub, width=300)


def test_programs_read_what_was_fetched_and_the_check(cub):
    found = record("data", "fetch", "cub", "--out", cub, "--yes")
    assert found["fetched"][-1] == "CUB_200_2011.tgz"
    assert [split["split"] for split in found["check"]["splits"]][:3] == ["train", "test", "seen"]
    assert record("data", "fetch", "cub", "--out", cub)["fetched"] == []


def test_without_somebody_to_ask_the_terms_are_told_and_nothing_is_fetched(cub, server):
    done = call("data", "fetch", "cub", "--out", cub)
    assert done.exit_code == 2
    assert "non-commercial research" in done.stdout
    assert "give --yes" in done.stderr
    assert server.asked == []


@pytest.mark.parametrize(("answer", "fetched"), [(True, True), (False, False)])
def test_a_person_is_asked(cub, server, monkeypatch, answer, fetched):
    monkeypatch.setattr("pcme.cli.data._agreed", lambda *, yes: answer)
    text = printed("data", "fetch", "cub", "--out", cub)
    assert ("nothing was fetched" in text) != fetched
    assert (cub / "images").is_dir() == fetched


def test_a_file_of_weights_needs_no_check(server, tmp_path, monkeypatch):
    item = WebFile("resnet50.pth", server.add("resnet50.pth", b"weights"), 7)
    monkeypatch.setattr(registry.get("resnet"), "items", property(lambda self: (item,)))
    monkeypatch.chdir(tmp_path)
    assert record("data", "fetch", "resnet", "--yes")["check"] is None
    assert (tmp_path / "resnet50.pth").read_bytes() == b"weights"


def test_without_a_network_it_is_one_sentence_with_status_2(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    nowhere = unused()
    item = WebFile("glove.txt", nowhere, 7)
    monkeypatch.setattr(registry.get("glove"), "items", property(lambda self: (item,)))
    message = refused("data", "fetch", "glove", "--out", tmp_path / "new", "--yes")
    assert message == f"pcme: {nowhere}: cannot be reached, got Connection refused. Run it where there is a network."
    assert not (tmp_path / "new").exists()


def test_a_wrong_checksum_leaves_nothing(server, tmp_path, monkeypatch):
    item = WebFile("glove.txt", server.add("glove.txt", b"words"), 7, "sha256:00", "nobody")
    monkeypatch.setattr(registry.get("glove"), "items", property(lambda self: (item,)))
    assert "wrong checksum" in refused("data", "fetch", "glove", "--out", tmp_path / "new", "--yes")
    assert list((tmp_path / "new").iterdir()) == []


def test_forms_are_explained(tmp_path):
    message = refused("data", "fetch", "flickr8k", "--out", tmp_path / "f", "--yes")
    assert "https://forms.illinois.edu/sec/1713398" in message
    assert not (tmp_path / "f").exists()
