"""COCO: Karpathy's file and the official ones, written small; real captions where PCME_DATA has."""

import gzip
import json
from functools import partial

import numpy as np
import pytest

from pcme.data import Problems, create, find
from pcme.data.formats.coco import COCO
from pcme.errors import ConfigError, DataError, FormatError
from pcme.evaluation import protocol
from pcme.retrieval.plausible import pmrp
from tests.data.formats import official
from tests.data.formats.reading import ids, load_as
from tests.helpers import picture, real

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
    seen = [(7, 17), (7, 17, "crowd"), (7, 1), (5, 90, "crowd")]
    (tmp_path / "annotations").mkdir()
    document = json.dumps(official.instances([4, 5, 6, 7, 8], seen))
    (tmp_path / "annotations" / "instances_val2014.json").write_text(document)
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
    assert [len(test.labels.names), *test.labels.names[::79]] == [80, "person", "toothbrush"]  # by category id
    objects = [[test.labels.names[n] for n in np.flatnonzero(row)] for row in test.labels.values]
    assert objects == [["person", "cat"], ["toothbrush"], []]
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


def test_labels_of_images_that_the_instances_file_does_not_list_are_unknown_not_none(karpathy):
    """As instances_val2017.json beside Karpathy's split: most images would drop out without a word."""
    path = karpathy / "annotations" / "instances_val2014.json"
    edit(path, lambda document: document["images"].pop(2))  # image 6, which has no object
    path.rename(path.with_name("instances_val2017.json"))
    test = COCO(karpathy).load("test")
    assert test.labels is None
    assert "3 images, of which the instances file lists 2. Put instances_val2014.json" in test.obstacles["pmrp"]
    path.write_text(json.dumps(official.instances([6], [(6, 90)])))
    both = COCO(karpathy).load("test")
    assert both.labelled.tolist() == [True, True, True], "files of both years are one"
    assert both.obstacles == {}


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
def folder(tmp_path):
    """The official files of 2014 alone."""
    for split in ("train", "val"):
        path = tmp_path / "annotations" / f"captions_{split}2014.json.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps(official.captions((8, 2), 6, split)).encode()))
        for n in (8, 2):
            picture(tmp_path / f"{split}2014" / official.file_name(n, split))
    return tmp_path


def test_the_official_files_give_the_official_splits(folder):
    dataset = find(folder)
    assert (dataset, dataset.splits) == (COCO(folder), ("train", "val"))
    val = dataset.load("val")
    assert ids(val) == [f"val2014/COCO_val2014_{number:012}.jpg" for number in (8, 2)]
    assert list(val.captions[:5]) == [f"val 8 {c}" for c in range(5)]
    assert val.caption_ids[5] == "20"
    with pytest.raises(ConfigError, match="train, val"):
        dataset.load("test")


def test_official_records_that_lack_a_field_are_reported(folder):
    def damage(document):
        del document["images"][1]["file_name"]
        document["annotations"] += [{"id": 1}, None]

    edit(folder / "annotations" / "captions_val2014.json.gz", damage)
    dataset, problems = load(folder, "val")
    assert len(dataset.images) == 1
    assert problems.counts == {"row-malformed": 3, "caption-surplus": 1}


@pytest.mark.parametrize("raw", [b"not gzip", gzip.compress(b'{"images": 1}'), gzip.compress(b"{}" * 99)[:20]])
def test_a_damaged_official_file_is_a_format_error(folder, raw):
    (folder / "annotations" / "captions_val2014.json.gz").write_bytes(raw)
    with pytest.raises(FormatError, match="captions_val2014"):
        COCO(folder).load("val")


@pytest.mark.parametrize("year", [2014, 2017])
def test_official_splits_have_pmrp_by_their_years_file_and_no_folds(tmp_path, year):
    (tmp_path / "annotations").mkdir()
    numbers = (8, 2, 5)
    for name, document in (
        ("captions", official.captions(numbers, year=year)),
        ("instances", official.instances(numbers, [(8, 1), (5, 17, "crowd")], year)),
    ):
        (tmp_path / "annotations" / f"{name}_val{year}.json").write_text(json.dumps(document))
    val, _ = load(tmp_path, "val", need_images=False)
    assert ids(val)[0] == f"val{year}/{official.file_name(8, year=year)}"
    assert val.labelled.tolist() == [True, False, True]
    rules = protocol(val)
    assert rules.notes == (
        f"no 1K: coco/val is the official split of {year}, the folds are of Karpathy's. Put dataset_coco.json beside "
        "annotations/.",
    )
    assert rules.t2i.plausible.labelled.tolist() == [True, False, True]
    (tmp_path / "annotations" / f"instances_val{year}.json").unlink()
    notes = protocol(load(tmp_path, "val", need_images=False)[0]).notes
    assert notes[0] == f"no PMRP: coco/val has no labels. Put instances_val{year}.json into annotations/."


def test_captions_without_images_can_be_asked_for(folder):
    for path in (folder / "val2014").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="image-missing: 2"):
        COCO(folder).load("val")
    assert len(COCO(folder, need_images=False).load("val").captions) == 10


def test_the_real_captions_have_the_protocols_counts():
    val, problems = load(real("coco"), "val", need_images=False)
    assert (len(val.images), len(val.captions)) == (5_000, 25_000)  # of 25,014
    assert np.bincount(val.caption_image).tolist() == [5] * 5_000
    assert problems.counts["caption-surplus"] == 13


def test_the_real_val2017_has_five_thousand_images_and_yet_no_folds():
    val, _ = load(real("coco"), "val", need_images=False)
    rules = protocol(val)
    assert rules.t2i.folds == rules.i2t.folds == ()
    assert ["instances_val2017.json" in rules.notes[0], "no 1K" in rules.notes[1]] == [True, True]
