from dataclasses import replace

import numpy as np
import pytest

from pcme.data.aviary.dataset import Aviary
from pcme.data.dataset import CaptionDataset, NamedValues
from pcme.data.formats.coco import COCO
from pcme.data.images.decoding import ImageError
from pcme.data.sources import CachedImages, Files, Subset
from pcme.errors import ConfigError, DataError, ShapeError
from pcme.retrieval.labels import UNSAID
from tests.data.formats.reading import ids
from tests.helpers import picture


def toy(root, images=6, per_image=2, classes=3):
    owner = np.repeat(np.arange(images), per_image)
    return CaptionDataset.by_image(
        "toy",
        "test",
        Files(root, [f"{i}.png" for i in range(images)]),
        [f"caption {c}" for c in range(images * per_image)],
        owner,
        classes=NamedValues(np.arange(images) % classes, tuple("abc"[:classes])),
        labels=NamedValues(np.arange(images)[:, None] % 2 == np.arange(2)[None], ("even", "odd")),
        metadata=[{"number": i} for i in range(images)],
    )


def loop_matches(dataset):
    """τ by the rule itself: an image satisfies all that a caption says."""
    return [
        [
            all(said in (UNSAID, fact) for said, fact in zip(caption, image, strict=True))
            for image in dataset.facts.tolist()
        ]
        for caption in dataset.said.tolist()
    ]


@pytest.mark.parametrize(("by_class", "matches"), [(False, 1), (True, 2)])
def test_captions_match_their_image_or_all_images_of_its_class(tmp_path, by_class, matches):
    dataset = toy(tmp_path).matching_class() if by_class else toy(tmp_path)
    assert dataset.matches().dense().tolist() == loop_matches(dataset)
    assert dataset.multiplicity().tolist() == [matches] * 12
    assert dataset.caption_ids[:3] == ("0.png#0", "0.png#1", "1.png#0")
    with pytest.raises(DataError, match="toy/test: has no classes"):
        replace(dataset, classes=None).matching_class()


def test_a_caption_can_match_its_image_alone_whatever_the_dataset_says(tmp_path):
    dataset = toy(tmp_path)
    alone = dataset.matching_class().matching_image()
    assert alone.matches().dense().tolist() == dataset.matches().dense().tolist() == loop_matches(alone)
    drawn = Aviary(train_species=4, train_images=2, pixels=16, captions_per_image=2).load("train")
    assert drawn.matching_image().matches().dense().tolist() == [
        [image == owner for image in range(len(drawn.images))] for owner in drawn.caption_image.tolist()
    ]
    assert drawn.matching_image().writer is None


@pytest.mark.parametrize("by_class", [False, True])
def test_a_subset_keeps_the_truth_between_what_it_keeps(tmp_path, by_class):
    whole = toy(tmp_path).matching_class() if by_class else toy(tmp_path)
    picked = [4, 1, 3]
    part = whole.subset(picked)
    captions = [c for image in picked for c in (2 * image, 2 * image + 1)]
    assert list(part.captions) == [whole.captions[c] for c in captions]
    assert list(part.caption_ids) == [whole.caption_ids[c] for c in captions]
    assert part.caption_image.tolist() == [0, 0, 1, 1, 2, 2]
    assert np.array_equal(part.matches().dense(), whole.matches().dense()[np.ix_(captions, picked)])
    assert ids(part) == ["4.png", "1.png", "3.png"]
    assert part.metadata == [{"number": 4}, {"number": 1}, {"number": 3}]
    assert part.classes.values.tolist() == [1, 1, 0]
    assert part.labels.values.tolist() == [[True, False], [False, True], [False, True]]
    assert ids(whole.subset(np.array([True, False] * 3))) == ["0.png", "2.png", "4.png"]
    assert not replace(whole, labels=None).labelled.any()


@pytest.mark.parametrize(
    "wrong",
    [
        {"captions": ["one"]},
        {"said": np.zeros((5, 1), np.int64)},
        {"facts": np.zeros((7, 1), np.int64)},
        {"metadata": [{}]},
        {"caption_image": np.full(12, 6)},
        {"classes": NamedValues(np.zeros(5, np.int64), ("a",))},
    ],
)
def test_rows_that_do_not_fit_are_refused(tmp_path, wrong):
    with pytest.raises(ShapeError, match="toy/test"):
        replace(toy(tmp_path), **wrong)


def test_files_are_stamped_by_size_and_time_and_a_subset_is_a_view(tmp_path):
    path = picture(tmp_path / "b.png")
    files = Files(tmp_path, ["a.png", "b.png"])
    view, before = Subset(files, np.array([1])), files.stamp(1)
    picture(path, colour=(0, 0, 255), size=(40, 40))
    assert view.stamp(0) == files.stamp(1) != before
    assert files.stamp(0) == "missing"
    assert (files.id(1), files.path(1), len(files)) == (view.id(0), view.path(0), 1 + len(view)) == ("b.png", path, 2)
    assert files.load(1).size == view.load(0).size == (40, 40)


def test_pictures_are_remembered_up_to_the_limit(tmp_path):
    for name in ("a.png", "b.png"):
        picture(tmp_path / name, size=(10, 10))
    files = Files(tmp_path, ["a.png", "b.png", "c.png"])
    kept = CachedImages(files, limit=400)
    first = [kept.load(i) for i in (0, 1)]
    (tmp_path / "a.png").unlink()
    assert kept.load(0) is first[0]
    assert kept.load(1) is not first[1]  # 400 bytes are one picture of 10 x 10
    with pytest.raises(ImageError):
        kept.load(2)
    assert (len(kept), kept.id(1), kept.path(1)) == (3, "b.png", tmp_path / "b.png")
    assert kept.stamp(1) == files.stamp(1)


def test_divided_is_a_random_share_and_the_rest(tmp_path):
    data = toy(tmp_path, images=10)
    rest, held = data.divided(0.3)
    assert (len(ids(rest)), len(ids(held))) == (7, 3)
    assert sorted(ids(rest) + ids(held)) == ids(data)
    assert (rest.split, held.split) == (data.split, "val")
    assert sorted((*rest.captions, *held.captions)) == sorted(data.captions)
    again, other = data.divided(0.3)[1], data.divided(0.3, seed=1)[1]
    assert held.captions == again.captions != other.captions
    with pytest.raises(DataError, match="least"):
        data.subset([0]).divided(0.5)


def test_a_folder_without_any_split_is_told_what_it_must_hold(tmp_path):
    with pytest.raises(ConfigError, match=r"none of the files of COCO are there. It must hold dataset_"):
        COCO(tmp_path).checked_split("train")
    (tmp_path / "dataset_coco.json").write_text("{}")
    with pytest.raises(ConfigError, match='no split "tset", it has train, val, test'):
        COCO(tmp_path).checked_split("tset")
