"""Flickr8k and Flickr30k: token files and Karpathy's JSON, written small; the real one if there."""

import json

import pytest

from pcme.data import Problems, find
from pcme.data.formats.flickr import Flickr8k, Flickr30k
from pcme.errors import DataError
from tests.data.formats.reading import ids, load_as
from tests.helpers import picture, real


def tokens(names, captions=5):
    return "".join(f"{name}#{c}\tA dog {name} {c} .\n" for name in names for c in range(captions))


@pytest.fixture
def flickr8k(tmp_path):
    listed = {"train": ["a.jpg", "b.jpg"], "dev": ["c.jpg"], "test": ["d.jpg", "e.jpg"]}
    everything = [name for part in listed.values() for name in part]
    (tmp_path / "Flickr8k.token.txt").write_text(tokens(everything))
    for split, part in listed.items():
        (tmp_path / f"Flickr_8k.{split}Images.txt").write_text("\n".join(part))
    for name in everything:
        picture(tmp_path / "Flicker8k_Dataset" / name)
    return tmp_path


def test_the_lists_are_the_splits(flickr8k):
    dataset = find(flickr8k)
    assert (dataset, dataset.splits) == (Flickr8k(flickr8k), ("train", "dev", "test"))
    test = dataset.load("test")
    assert ids(test) == ["Flicker8k_Dataset/d.jpg", "Flicker8k_Dataset/e.jpg"]
    assert test.captions[0] == "A dog d.jpg 0 ."
    assert test.multiplicity().tolist() == [1] * 10


def test_missing_images_captions_and_bad_lines_are_reported(flickr8k):
    (flickr8k / "Flicker8k_Dataset" / "b.jpg").unlink()
    (flickr8k / "Flickr_8k.trainImages.txt").write_text("a.jpg\nb.jpg\n\nghost.jpg\n")
    with open(flickr8k / "Flickr8k.token.txt", "ab") as file:
        file.write(b"no tab here\n\na.jpg#5\tcaf\xe9\n")
    train, problems = load_as(Flickr8k, flickr8k, "train")
    assert ids(train) == ["Flicker8k_Dataset/a.jpg"]
    assert train.captions[-1] == "caf\N{REPLACEMENT CHARACTER}"
    kinds = ("image-missing", "image-without-captions", "caption-not-utf8", "row-malformed")
    assert problems.counts == dict.fromkeys(kinds, 1)


def test_captions_without_images_can_be_asked_for(flickr8k):
    for path in (flickr8k / "Flicker8k_Dataset").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="image-missing: 2"):
        Flickr8k(flickr8k).load("test")
    test = Flickr8k(flickr8k).with_missing().load("test")
    assert (len(test.images), len(test.captions)) == (2, 10)


def test_flickr30k_without_splits_is_all(tmp_path):
    (tmp_path / "results_20130124.token").write_text(tokens(["1.jpg", "2.jpg"]))
    for name in ("1.jpg", "2.jpg"):
        picture(tmp_path / "flickr30k-images" / name)
    dataset = find(tmp_path)
    assert (dataset, dataset.splits) == (Flickr30k(tmp_path), ("all",))
    assert len(dataset.load("all").captions) == 10


@pytest.mark.parametrize("cls", [Flickr8k, Flickr30k])
def test_karpathys_file_gives_the_splits(tmp_path, cls):
    entries = [
        {"filename": f"{n}.jpg", "split": split, "sentences": [{"raw": f"dog {n}", "sentid": n}]}
        for n, split in enumerate(["train", "val", "test", "train"])
    ]
    (tmp_path / f"dataset_{cls.__name__.lower()}.json").write_text(json.dumps({"images": entries}))
    for entry in entries:
        picture(tmp_path / "images" / entry["filename"])
    dataset = find(tmp_path)
    assert dataset == cls(tmp_path)
    train = dataset.load("train")
    assert (ids(train), train.caption_ids) == (["images/0.jpg", "images/3.jpg"], ("0", "3"))


def test_the_real_counts():
    problems, listed = Problems(), Flickr8k.expected["train"] + Flickr8k.expected["dev"]
    loaded = [Flickr8k(real("flickr8k")).load(split, problems) for split in ("train", "dev")]
    assert all(len(dataset.captions) == 5 * len(dataset.images) for dataset in loaded)
    assert sum(len(dataset.images) for dataset in loaded) + problems.counts.get("image-missing", 0) == listed
