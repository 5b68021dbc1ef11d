"""Files of the web: checksums, what is taken from archives, files that a person brings."""

import hashlib

import pytest

from pcme.data.fetch.web import WebFile
from pcme.errors import DataError, FormatError
from tests.data.fetch.serving import tree, zipped

ARCHIVE = zipped({"birds/a.txt": b"a", "birds/b.txt": b"b", "birds/images/1.jpg": b"1"})
TAKES = {"birds/a.txt": "lists/a.txt", "birds/images": "images"}
LAID_OUT = {"lists/a.txt": b"a", "images/1.jpg": b"1"}
SHA, MD5 = hashlib.sha256(ARCHIVE).hexdigest(), hashlib.md5(ARCHIVE).hexdigest()


@pytest.fixture
def item(server):
    """An archive at an address, of which two parts are taken."""
    url = server.add("birds.zip", ARCHIVE)

    def make(**changes):
        known = {"url": url, "size": len(ARCHIVE), "takes": TAKES, "unpacked": 10}
        return WebFile("birds.zip", **(known | changes))

    return make


@pytest.mark.parametrize("digest", ["", f"sha256:{SHA}", f"md5:{MD5}", f"sha256:{SHA[:8]}"])
def test_an_archive_is_checked_and_laid_out_and_removed(item, digest, tmp_path):
    item(digest=digest).bring(tmp_path)
    assert tree(tmp_path) == LAID_OUT


def test_a_file_without_parts_keeps_its_name(item, tmp_path):
    file = item(takes={})
    file.bring(tmp_path)
    assert file.places == ("birds.zip",)
    assert tree(tmp_path) == {"birds.zip": ARCHIVE}


@pytest.mark.parametrize("digest", ["sha256:00", f"md5:{SHA[:32]}"])
def test_a_wrong_checksum_leaves_nothing(item, digest, tmp_path):
    with pytest.raises(FormatError, match=r"birds.zip: wrong checksum, its (sha256|md5) must be .*, got"):
        item(digest=digest).bring(tmp_path)
    assert tree(tmp_path) == {}


def test_a_hostile_archive_leaves_nothing(item, server, tmp_path):
    url = server.add("birds.zip", zipped({"birds/../../a.txt": b"a"}))
    with pytest.raises(FormatError, match=r"birds\.zip: a name in it leads out of it"):
        item(url=url).bring(tmp_path / "in")
    assert tree(tmp_path) == {}


def test_an_archive_that_a_person_brought_is_used_and_kept(item, server, tmp_path):
    asked = item(url="", by_hand="Fill in the form.")
    assert (
        asked.lacking(tmp_path)
        == f"birds.zip: Fill in the form. Put it into {tmp_path} and run the same command again."
    )
    (tmp_path / "birds.zip").write_bytes(ARCHIVE)
    assert asked.lacking(tmp_path) == ""
    asked.bring(tmp_path)
    assert tree(tmp_path) == LAID_OUT | {"birds.zip": ARCHIVE}
    assert server.asked == []


def test_a_full_disk_keeps_what_was_transferred(item, server, tmp_path):
    (tmp_path / "lists").write_text("where a folder should come")
    with pytest.raises(DataError, match="cannot be unpacked"):
        item().bring(tmp_path)
    (tmp_path / "lists").unlink()
    item().bring(tmp_path)
    assert len(server.asked) == 1
    assert tree(tmp_path) == LAID_OUT


def test_the_description_has_address_size_and_checksum_or_says_that_there_is_none(item):
    assert (
        item(digest="md5:12", published="the author").described().startswith("birds.zip, 1 kB, md5:12 (the author)\n")
    )
    assert item().described().endswith(item().url)
    assert "no checksum is published" in item().described()
    assert "size not published" in item(url="", size=0, by_hand="Ask.").described()
    assert item(url="", by_hand="Ask.").described().endswith("Ask.")
