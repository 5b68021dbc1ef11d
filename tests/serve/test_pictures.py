"""Pictures: those of the index below one folder, small copies made once, nothing else."""

import io
import os
import shutil
from dataclasses import replace

import pytest
from PIL import Image

from pcme import Points, SearchIndex
from pcme.errors import ConfigError
from pcme.index.items import Embeddings
from pcme.serve import pictures as module
from pcme.serve.app import Setup, create_app
from pcme.serve.pictures import Pictures
from pcme.serve.service import Service
from tests.helpers import picture, random_gaussians
from tests.serve.asking import Client, problem

PHOTO = "photos/03.png"


@pytest.fixture(scope="module")
def odd(world, tmp_path_factory):
    """(folder of pictures, client) of an index whose paths are of every kind."""
    folder = tmp_path_factory.mktemp("odd")
    root, secret = folder / "root", folder / "secret"
    shutil.copytree(world / "photos", root)
    picture(secret / "s.png")
    (root / "page.png").write_text("<html><script>alert(1)</script></html>")
    (root / "whole.png").write_bytes((root / "00.png").read_bytes()[:150])
    Image.open(root / "00.png").save(root / "t.tif")
    os.symlink(secret / "s.png", root / "link.png")
    os.symlink(secret, root / "linked")
    os.symlink(root / "00.png", root / "inside.png")
    os.symlink(root / "circle.png", root / "circle.png")
    os.mkfifo(root / "pipe.png")
    (root / "folder.png").mkdir()
    paths = {
        "inside": root / "inside.png", "relative": "00.png", "outside": secret / "s.png", "link": root / "link.png",
        "linked": root / "linked" / "s.png", "dots": "../secret/s.png", "passwd": "/etc/passwd",
        "away": "/nowhere/x.png", "gone": root / "gone.png", "page": root / "page.png", "part": root / "whole.png",
        "tiff": root / "t.tif", "pipe": root / "pipe.png", "folder": root / "folder.png", "zero": f"{root}/a\0b",
        "circle": root / "circle.png", "long": "x" * 5000, "none": None,
    }  # fmt: skip
    index = SearchIndex.create(folder / "index", dim=4)
    texts = [None if path is None else str(path) for path in paths.values()]
    points = Points(random_gaussians(len(paths), 4, seed=0).mean[:, None])
    index.add(Embeddings(list(paths), points, paths=texts))
    index.add(Embeddings(["caption"], points[0], "caption", paths=[str(root / "00.png")]))
    service = Service(index)
    yield root, Client(create_app(service, Setup(images=root)))
    service.close()


def test_an_original_is_the_file_and_a_small_copy_is_small(client, world):
    path = world / "photos" / "03.png"
    original = client.get(f"/v1/images/{PHOTO}")
    assert (original.content, original.headers["content-type"]) == (path.read_bytes(), "image/png")
    assert original.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert int(original.headers["content-length"]) == path.stat().st_size
    small = client.get("/v1/thumbnails/photos%2F03.png")
    assert small.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(small.content)).size == (48, 36)
    for answer in (original, small):
        again = client.get(answer.request.url.path, headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_a_small_copy_is_made_once_and_again_when_the_file_has_changed(world, tmp_path, monkeypatch, index):
    root = shutil.copytree(world / "photos", tmp_path / "photos")
    picture(root / "large.png", size=(900, 600))
    item = replace(index.items([PHOTO])[0], path=str(root / "large.png"))
    shown = Pictures(root, tmp_path / "cache")
    made, shrunk = [], module._shrunk
    monkeypatch.setattr(module, "_shrunk", lambda file: made.append(1) or shrunk(file))
    first, second = shown.thumbnail(item), shown.thumbnail(item)
    assert (first, len(made)) == (second, 1)
    assert max(Image.open(io.BytesIO(first.content)).size) == module.SIDE
    assert Pictures(root, tmp_path / "cache").thumbnail(item).tag == first.tag
    assert len(made) == 1  # it lies on the disk
    picture(root / "large.png", size=(600, 900))
    assert shown.thumbnail(item).tag != first.tag
    assert len(made) == 2
    shutil.rmtree(tmp_path / "cache")
    (tmp_path / "cache").write_text("no folder can be made here")
    assert Image.open(io.BytesIO(shown.thumbnail(item).content)).size[1] == module.SIDE


@pytest.mark.parametrize("where", ["images", "thumbnails"])
def test_what_lies_elsewhere_is_refused_and_what_is_not_there_has_a_placeholder(odd, where):
    _, client = odd
    for name in ("outside", "link", "linked", "dots", "passwd", "away"):
        status, detail = problem(client.get(f"/v1/{where}/{name}"))
        assert (status, "below the folder" in detail) == (403, True), name
    for name in ("gone", "page", "pipe", "folder", "zero", "circle", "long", "none", "caption"):
        answer = client.get(f"/v1/{where}/{name}")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "image/svg+xml"), name
        assert (answer.content, answer.headers["x-placeholder"]) == (module.PLACEHOLDER, "true"), name
    for name in ("inside", "relative"):
        assert client.get(f"/v1/{where}/{name}").headers["content-type"].startswith("image/"), name
        assert "x-placeholder" not in client.get(f"/v1/{where}/{name}").headers, name


def test_a_format_that_browsers_lack_has_a_small_copy_only(odd):
    _, client = odd
    assert client.get("/v1/images/tiff").headers["x-placeholder"] == "true"
    assert client.get("/v1/thumbnails/tiff").headers["content-type"] == "image/jpeg"
    assert client.get("/v1/thumbnails/part").headers["x-placeholder"] == "true"


@pytest.mark.parametrize(
    "address",
    [
        "/v1/images/../../../etc/passwd",
        "/v1/images/%2e%2e/%2e%2e/etc/passwd",
        "/v1/images//etc/passwd",
        "/v1/images/%2Fetc%2Fpasswd",
        "/v1/images/photos/../03.png",
        "/v1/thumbnails/..%2F..%2Fetc%2Fpasswd",
        "/page/..%2Fapp.py",
        "/page/../app.py",
    ],
)
def test_an_address_is_never_a_path(client, address):
    assert problem(client.get(address))[0] in (404, 422)


def test_a_picture_without_a_folder_or_an_item_is_not_found(client, shared):
    assert problem(client.get("/v1/thumbnails/nobody"))[0] == 404
    status, detail = problem(Client(create_app(shared)).get(f"/v1/images/{PHOTO}"))
    assert (status, "--images" in detail) == (404, True)


def test_a_root_that_is_no_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="not a folder"):
        Pictures(tmp_path / "nowhere", tmp_path)
