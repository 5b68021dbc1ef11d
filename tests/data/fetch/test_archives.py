"""Archives: what is wanted lands in its place; hostile and damaged ones leave nothing behind."""

import stat
import tarfile
import zipfile

import pytest

from pcme.data.fetch.archives import unpack
from pcme.errors import DataError, FormatError
from tests.data.fetch.serving import tarred, tree, zipped

TAKES = {"birds/images": "images", "birds/list.txt": "lists/all.txt"}
WANTED = {"birds/images/a/1.jpg": b"one", "birds/images/b/2.jpg": b"two", "birds/list.txt": b"a b"}
LAID_OUT = {"images/a/1.jpg": b"one", "images/b/2.jpg": b"two", "lists/all.txt": b"a b"}
OTHERS = {"birds/images.txt": b"0", "birds/imagesets/3.jpg": b"3", "README": b"read"}
KINDS = {"zip": zipped, "tgz": tarred, "tar": lambda entries: tarred(entries, "w")}


def unpacked(folder, content, takes=TAKES, limit=1_000):
    """Unpack an archive that lies beside the folder."""
    archive = folder.parent / "birds.archive"
    archive.write_bytes(content)
    unpack(archive, takes, folder, name="birds.archive", limit=limit)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prefix", ["", "./"])
def test_what_is_wanted_lands_in_its_place_and_nothing_else_does(folder, kind, prefix):
    content = KINDS[kind]({f"{prefix}{name}": data for name, data in (WANTED | OTHERS).items()})
    unpacked(folder, content)
    assert tree(folder) == LAID_OUT


def link(kind, target="../../outside"):
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, target
    return info


def zip_info(name, **attributes):
    info = zipfile.ZipInfo(name)
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info


def encrypted(content):
    """The zip with the mark of encryption in every header."""
    content = bytearray(content)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := content.find(mark, start + 1)) >= 0:
            content[start + offset] |= 1
    return bytes(content)


def huge_header():
    """A tar whose first extended header claims 8 GB."""
    info = tarfile.TarInfo("birds/x")
    info.type, info.size = tarfile.XHDTYPE, 2**33
    return info.tobuf(tarfile.GNU_FORMAT) + tarred(WANTED, "w")


BOMB = {"birds/images/bomb.jpg": bytes(2_000)}
HOSTILE = {
    "up": (tarred({"birds/images/../../../outside": b"x"}), "leads out"),
    "up unwanted": (zipped({"../outside": b"x"} | WANTED), "leads out"),
    "root": (tarred({"/tmp/outside": b"x"}), "leads out"),
    "root of a zip": (zipped({"/outside": b"x"}), "leads out"),
    "drive": (tarred({"C:/outside": b"x"}), "leads out"),
    "backslash": (tarred({"birds\\..\\outside": b"x"}), "leads out"),
    "symbolic link": (tarred({"birds/images/a": link(tarfile.SYMTYPE), "birds/images/a/1.jpg": b"x"}), "a link"),
    "hard link": (tarred({"birds/images/a": link(tarfile.LNKTYPE)}), "a link"),
    "device": (tarred({"birds/images/a": link(tarfile.CHRTYPE)}), "a link"),
    "symbolic link in a zip": (
        zipped({zip_info("birds/images/a", external_attr=(stat.S_IFLNK | 0o777) << 16): b"../../outside"}),
        "a link",
    ),
    "encrypted": (encrypted(zipped(WANTED)), "a link or the like"),
    "bomb": (zipped(BOMB), "too large, got over 1,000 bytes"),
    "bomb in a tar": (tarred(BOMB), "too large, got over 1,000 bytes"),
    "huge header": (huge_header(), "damaged, or neither"),
    "no archive": (b"<html>Please confirm</html>", "damaged, or neither"),
    "empty": (b"", "damaged, or neither"),
    "other": (tarred(OTHERS), "another archive than expected, it has no birds/images"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing(folder, kind):
    content, message = HOSTILE[kind]
    with pytest.raises(FormatError, match=message) as caught:
        unpacked(folder, content)
    assert str(caught.value).startswith("birds.archive: ")
    assert tree(folder.parent) == {"birds.archive": content}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.3, 0.6])
def test_an_archive_that_is_cut_off_leaves_nothing(folder, kind, share):
    many = {f"birds/images/{number}.jpg": bytes([number]) * 3_000 for number in range(20)} | {"birds/list.txt": b"a"}
    content = KINDS[kind](many)
    with pytest.raises(FormatError, match=r"damaged, or neither|another archive"):
        unpacked(folder, content[: int(share * len(content))], limit=100_000)
    assert tree(folder) == {}


def test_a_name_that_is_there_twice_is_refused(folder):
    twice = tarred([*WANTED.items(), *WANTED.items()])
    with pytest.raises(DataError, match=r"birds.archive: cannot be unpacked, got File exists"):
        unpacked(folder, twice)
    assert tree(folder) == {}
