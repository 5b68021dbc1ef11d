"""COCO: Karpathy's file and the official ones, written small; real captions where PCME_DATA has."""

import gzip
import json
from functools import partial

import numpy as np
import pytest

from pcme.data import Problems, create, find
from pcme.data.formats.coco import COCO
from pcme.errors import ConfigError, DataError, FormatError
from pcme.retrieval.plausible import pmrp
from tests.data.formats.reading import ids, load_as
from tests.helpers import picture, real

CATEGORIES = [{"id": number, "name": name} for number, name in ((90, "brush"), (1, "person"), (17, "cat"))]

load = partial(load_as, COCO)


def karpathy_entry(number, split, captions=5, folder="val2014"):
    return {
        "filepath": folder,
        "filename": f"COCO_{folder}_{number:012}.jpg",
        "cocoid": number,
        "split": split,
        "sentences": [{"raw": f"image {number} caption {c}", "sentid": 100 * number + c} for c in range(captions)],
    }


@pytest.fixture
def karpathy(tmp_path):
    entries = [
        karpathy_entry(7, "test"),
        karpathy_entry(3, "train", folder="train2014"),
        karpathy_entry(9, "restval"),
        karpathy_entry(4, "val", captions=7),
        karpathy_entry(5, "test"),
        karpathy_entry(6, "test"),
    ]
    (tmp_path / "dataset_coco.json").write_text(json.dumps({"images": entries, "dataset": "coco"}))
    for entry in entries:
        picture(tmp_path / entry["filepath"] / entry["filename"])
    seen = [{"image_id": image, "category_id": kind} for image, kind in ((7, 17), (7, 17), (7, 1), (5, 90))]
    (tmp_path / "annotations").mkdir()
    instances = json.dumps({"categories": CATEGORIES, "annotations": seen})
    (tmp_path / "annotations" / "instances_val2014.json").write_text(instances)
    return tmp_path


def edit(path, change):
    """Apply `change` to the document in a JSON file."""
    packed = path.suffix == ".gz"
    document = json.loads(gzip.decompress(path.read_bytes()) if packed else path.read_bytes())
    change(document)
    raw = json.dumps(document).encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)


def test_images_keep_file_order_captions_their_ids_and_train_holds_restval_too(karpathy):
    assert find(karpathy) == COCO(karpathy)
    train, test = (COCO(karpathy).load(split) for split in ("train", "test"))
    assert [entry["coco_id"] for entry in train.metadata] == [3, 9]
    assert train.labels is None
    assert [entry["coco_id"] for entry in test.metadata] == [7, 5, 6]
    assert test.caption_ids[:6] == ("700", "701", "702", "703", "704", "500")
    assert test.multiplicity().tolist() == [1] * 15
    assert test.images.load(0).size == (24, 18)
    assert test.labels.names == ("person", "cat", "brush")  # by category id
    assert test.labels.values.astype(int).tolist() == [[1, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert test.labelled.tolist() == [True, True, False]


def test_the_first_five_captions_count(karpathy):
    problems = Problems(strict=True)  # a surplus is the protocol's business, not a fault
    val = COCO(karpathy).load("val", problems)
    assert list(val.captions) == [f"image 4 caption {c}" for c in range(5)]
    assert problems.counts == {"caption-surplus": 1}


def test_images_without_objects_drop_out_of_pmrp_only(karpathy):
    """The protocol, both ways: leave them out of the metric, or out of the dataset."""
    test = COCO(karpathy).load("test")
    scores = np.random.default_rng(0).random((15, 3))
    labels = test.labels.values
    inside = pmrp(scores, labels[test.caption_image], labels, drop_unlabelled=True)
    kept = test.subset(test.labelled)
    captions = np.flatnonzero(test.labelled[test.caption_image])
    scores = scores[np.ix_(captions, np.flatnonzero(test.labelled))]
    outside = pmrp(scores, kept.labels.values[kept.caption_image], kept.labels.values)
    assert np.isnan(inside[10:]).all()
    assert np.array_equal(inside[captions], outside)


def test_splits_name_their_readings(karpathy):
    readings = {split: COCO(karpathy).load(split).readings for split in ("train", "val", "test")}
    assert readings == {"train": (), "val": ("pmrp", "1k"), "test": ("pmrp", "1k", "eccv", "cxc")}
    own = create("own", root=karpathy)
    assert own.load("test").readings == readings["test"]


@pytest.mark.parametrize("place", ["images/{folder}/{name}", "images/trainval35k/{name}", "{name}"])
def test_other_places_of_the_images_are_found(karpathy, place):
    for folder in ("train2014", "val2014"):
        for path in list((karpathy / folder).iterdir()):
            target = karpathy / place.format(folder=folder, name=path.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
    dataset, problems = load(karpathy, "test")
    assert (len(dataset.images), problems.counts) == (3, {})


def test_what_cannot_be_used_of_karpathys_file_is_reported(karpathy):
    def damage(document):
        document["images"][0] |= {"filepath": "..", "filename": "secret.jpg"}
        del document["images"][4]["sentences"]
        document["images"] += ["not an image", karpathy_entry(5, "test"), karpathy_entry(8, "test")]

    picture(karpathy.parent / "secret.jpg")
    edit(karpathy / "dataset_coco.json", damage)
    dataset, problems = load(karpathy, "test")
    assert ids(dataset) == [f"val2014/COCO_val2014_{n:012}.jpg" for n in (6, 5)]
    assert problems.counts == {"image-outside": 1, "row-malformed": 2, "image-missing": 1}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *[("dataset_coco.json", text) for text in ("{", "[]", '{"images": 3}', "")],
        ("annotations/instances_val2014.json", '{"annotations": []}'),
    ],
)
def test_a_damaged_file_is_a_format_error(karpathy, name, text):
    (karpathy / name).write_text(text)
    with pytest.raises(FormatError, match=name):
        COCO(karpathy).load("test")


@pytest.fixture
def official(tmp_path):
    for split in ("train", "val"):
        document = {
            "images": [{"id": n, "file_name": f"COCO_{split}2014_{n:012}.jpg"} for n in (8, 2)],
            "annotations": [
                {"id": 10 * n + c, "image_id": n, "caption": f"{split} {n} {c}"} for c in range(6) for n in (2, 8)
            ],
        }
        path = tmp_path / "annotations" / f"captions_{split}2014.json.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps(document).encode()))
        for n in (8, 2):
            picture(tmp_path / f"{split}2014" / f"COCO_{split}2014_{n:012}.jpg")
    return tmp_path


def test_the_official_files_give_the_official_splits(official):
    dataset = find(official)
    assert (dataset, dataset.splits) == (COCO(official), ("train", "val"))
    val = dataset.load("val")
    assert ids(val) == [f"val2014/COCO_val2014_{number:012}.jpg" for number in (8, 2)]
    assert list(val.captions[:5]) == [f"val 8 {c}" for c in range(5)]
    assert val.caption_ids[5] == "20"
    with pytest.raises(ConfigError, match="train, val"):
        dataset.load("test")


def test_official_records_that_lack_a_field_are_reported(official):
    def damage(document):
        del document["images"][1]["file_name"]
        document["annotations"] += [{"id": 1}, None]

    edit(official / "annotations" / "captions_val2014.json.gz", damage)
    dataset, problems = load(official, "val")
    assert len(dataset.images) == 1
    assert problems.counts == {"row-malformed": 3, "caption-surplus": 1}


@pytest.mark.parametrize("raw", [b"not gzip", gzip.compress(b'{"images": 1}'), gzip.compress(b"{}" * 99)[:20]])
def test_a_damaged_official_file_is_a_format_error(official, raw):
    (official / "annotations" / "captions_val2014.json.gz").write_bytes(raw)
    with pytest.raises(FormatError, match="captions_val2014"):
        COCO(official).load("val")


def test_captions_without_images_can_be_asked_for(official):
    for path in (official / "val2014").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="image-missing: 2"):
        COCO(official).load("val")
    assert len(COCO(official, need_images=False).load("val").captions) == 10


def test_the_real_captions_have_the_protocols_counts():
    val, problems = load(real("coco"), "val", need_images=False)
    assert (len(val.images), len(val.captions)) == (5_000, 25_000)  # of 25,014
    assert np.bincount(val.caption_image).tolist() == [5] * 5_000
    assert problems.counts["caption-surplus"] == 13
