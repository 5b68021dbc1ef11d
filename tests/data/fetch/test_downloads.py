"""Every download states what it must; what the archives hold lands where the loaders read it."""

import re
from dataclasses import replace

import pytest

from pcme.data import Problems, find
from pcme.data import create as dataset
from pcme.data import names as datasets
from pcme.data.fetch import create, names
from pcme.data.fetch.web import WebFile
from pcme.errors import ConfigError, DataError
from tests.data.fetch.published import MADE, publish
from tests.data.fetch.serving import tree

everywhere = pytest.mark.parametrize("name", MADE)


@pytest.mark.parametrize("name", names())
def test_a_download_states_address_terms_size_and_checksum(name):
    download = create(name)
    assert download.dataset in ("", *datasets())
    text = download.described()
    assert all(part in text for part in (download.about, download.terms, download.page))
    for item in download.items:
        assert item.described() in text.replace("\n  ", "\n")
        assert item.name in text
        if isinstance(item, WebFile):
            assert bool(item.url) != bool(item.by_hand)
            assert re.fullmatch(r"(md5:\w{32}|sha256:(\w{8}|\w{64}))?", item.digest)
            assert bool(item.digest) == bool(item.published)
            assert item.size or item.by_hand
            assert bool(item.takes) == bool(item.unpacked)


def test_a_source_is_chosen_among_those_there_are():
    first = [create("resnet", source=source).items[0].name for source in ("torchvision", "torchvision-152", "npm")]
    assert first == ["resnet50.pth", "resnet152.pth", "resnet50-keras.safetensors"]
    with pytest.raises(ConfigError, match="source: must be one of torchvision, torchvision-152, npm"):
        create("resnet", source="ftp")
    with pytest.raises(ConfigError, match='"source" is not a field of download "cub"'):
        create("cub", source="npm")


@everywhere
def test_the_folder_is_what_the_loader_reads(name, server, tmp_path, monkeypatch):
    folder, problems = tmp_path / name, Problems()
    items = publish(name, server, folder, monkeypatch)
    assert create(name).fetch(folder) == [item.name for item in items]
    assert not [path for path in tree(folder) if path.split("/")[-1].startswith(".")]
    found = find(folder)
    assert found == dataset(name, root=folder)
    for split in found.splits:
        loaded = found.load(split, problems)
        assert len(loaded.images) > 0
        assert loaded.images.load(0).size == (24, 18)
    assert not problems
    before = len(server.asked)
    assert create(name).fetch(folder) == []
    assert len(server.asked) == before


def test_coco_has_its_objects(server, tmp_path, monkeypatch):
    publish("coco", server, tmp_path / "coco", monkeypatch)
    create("coco").fetch(tmp_path / "coco")
    assert find(tmp_path / "coco").load("test").labels.names[0] == "person"
    assert not (tmp_path / "coco" / "annotations" / "instances_train2014.json").exists()


@pytest.mark.parametrize(
    ("name", "file", "told"),
    [
        ("cub", "cvpr2016_cub.tar.gz", "drive.google.com"),
        ("flickr8k", "Flickr8k_Dataset.zip", "https://forms.illinois.edu/sec/1713398"),
        ("flickr30k", "flickr30k-images.tar", "https://forms.illinois.edu/sec/229675"),
    ],
)
def test_what_must_be_asked_for_is_told_before_anything_is_fetched(name, file, told, server, tmp_path):
    folder = tmp_path / name
    with pytest.raises(DataError, match=f"{name}: not everything has a public address") as caught:
        create(name).fetch(folder)
    assert all(part in str(caught.value) for part in (file, told, f"Put it into {folder}"))
    assert not folder.exists()


def test_a_part_that_is_done_stays_when_a_later_one_breaks(server, tmp_path, monkeypatch):
    folder = tmp_path / "cub"
    publish("cub", server, folder, monkeypatch)
    images = server.files.pop("/CUB_200_2011.tgz")
    with pytest.raises(DataError, match="404"):
        create("cub").fetch(folder)
    assert not (folder / "images").exists()
    server.files["/CUB_200_2011.tgz"] = images
    assert create("cub").fetch(folder) == ["CUB_200_2011.tgz"]
    assert find(folder).load("train").images


def test_nothing_that_is_there_is_replaced(server, tmp_path, monkeypatch):
    folder = tmp_path / "cub"
    publish("cub", server, folder, monkeypatch)
    (folder / "images").mkdir()
    with pytest.raises(ConfigError, match=r"cub/images: is there already, but not all that CUB_200_2011\.tgz brings"):
        create("cub").fetch(folder)
    assert server.asked == []


def test_a_disk_without_room_is_noticed_before_anything_is_fetched(server, tmp_path, monkeypatch):
    items = publish("coco", server, tmp_path / "coco", monkeypatch)
    items[0] = replace(items[0], size=10**18)
    with pytest.raises(DataError, match=r"coco: is on a disk with too little room, got .* of 10000.* GB needed"):
        create("coco").fetch(tmp_path / "coco")
    assert not (tmp_path / "coco").exists()


def test_weights_go_to_the_working_folder_and_datasets_below_pcme_data(monkeypatch, tmp_path):
    monkeypatch.setenv("PCME_DATA", str(tmp_path))
    assert create("cub").folder() == tmp_path / "cub"
    assert str(create("glove").folder()) == "."
    monkeypatch.delenv("PCME_DATA")
    assert str(create("coco").folder()) == "coco"
