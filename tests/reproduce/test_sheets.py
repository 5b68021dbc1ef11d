"""Figs 4, C.1 and C.2: what is drawn of the data is so by loops over it, and the figure shows it."""

import numpy as np
import pytest

from pcme.errors import DataError
from pcme.reproduce.base import registry
from pcme.reproduce.setups import SETUPS
from pcme.reproduce.sheets import Source
from tests.data.formats import official
from tests.helpers import photos
from tests.reproduce.conftest import write_coco, write_instances
from tests.reproduce.tiny import SETUP

MANY = [category["id"] for category in official.CATEGORIES][:14]


@pytest.fixture(scope="module")
def aviary():
    return Source(SETUP.recipe(["data.test_species=12", "data.test_images=8"]), SETUP.splits, None)


def test_the_histogram_counts_distinct_classes_as_a_loop_does(tmp_path):
    splits = ["val"] * 9 + ["test"] * 6 + ["train"]
    write_coco(tmp_path, splits)
    generator = np.random.default_rng(0)
    seen = {n: generator.choice(MANY, generator.integers(0, 25)).tolist() for n in range(1, len(splits) + 1)}
    seen[3], seen[5] = [], MANY[:12]  # one without objects, one with more than are drawn
    write_instances(tmp_path, seen)
    sheet = registry.create("fig-c1")
    found = sheet.compute(Source(SETUPS["coco"].recipe(), SETUPS["coco"].splits, tmp_path))
    assert [counted.split for counted in found.splits] == ["val", "test"]
    for counted in found.splits:
        distinct = [len(set(seen[n])) for n, split in enumerate(splits, start=1) if split == counted.split]
        expected = [distinct.count(number) for number in range(max(12, max(distinct) + 1))]
        assert list(counted.images) == expected[: len(counted.images)]
        assert sum(counted.images) == len(distinct)
        assert counted.many == pytest.approx(
            sum(number > 2 for number in distinct) / sum(number > 0 for number in distinct)
        )
        (axes,) = sheet.draw(found).axes
        heights = [bar.get_height() for bar in axes.patches[:11]]
        assert len(axes.patches) == 22
    assert heights == pytest.approx([100 * count / found.splits[0].total for count in found.splits[0].images[:11]])
    for image in (tmp_path / "val2014").iterdir():
        image.unlink()  # annotations are enough
    assert sheet.compute(Source(SETUPS["coco"].recipe(), SETUPS["coco"].splits, tmp_path)) == found


def test_without_instances_the_histogram_says_what_to_bring(tmp_path):
    write_coco(tmp_path, ["val", "test"])
    with pytest.raises(DataError, match="instances_val2014"):
        registry.create("fig-c1").compute(Source(SETUPS["coco"].recipe(), SETUPS["coco"].splits, tmp_path))


def given(dataset):
    """A source of a split that is there already."""
    of = Source(SETUP.recipe(), SETUP.splits, None)
    vars(of)["unseen"] = dataset
    return of


def checked_quartet(found, dataset, fits):
    """Four images and four captions that fit by a relation; each caption was written for one of the images."""
    assert len(set(found.images)) == len(set(found.captions)) == 4
    assert sorted(found.owner) == [0, 1, 2, 3]
    for text, owner in zip(found.captions, found.owner, strict=True):
        own = found.images[owner]
        (row, *_) = [
            n for n, caption in enumerate(dataset.captions) if caption == text and dataset.caption_image[n] == own
        ]
        assert all(fits(row, image) for image in found.images)
    numbers = [number.value for number in found.numbers()]
    assert numbers[:2] == [16, 12]
    return numbers[2]


def test_four_birds_fit_all_captions_by_what_is_said(aviary):
    dataset = aviary.unseen
    found = registry.create("fig4").compute(aviary)
    truth = dataset.matches().dense()
    assert checked_quartet(found, dataset, lambda row, image: truth[row, image]) == pytest.approx(truth.sum(1).mean())
    assert registry.create("fig4").compute(aviary) == found


def test_four_photographs_fit_by_their_class(tmp_path):
    dataset = photos(tmp_path).matching_class()
    found = registry.create("fig4").compute(given(dataset))
    classes = dataset.classes.values
    checked_quartet(found, dataset, lambda row, image: classes[dataset.caption_image[row]] == classes[image])
    assert found.why == f"all are of class {dataset.classes.names[classes[found.images[0]]]}"


def test_four_images_of_coco_fit_by_equal_labels(tmp_path):
    write_coco(tmp_path, ["test"] * 12)
    kinds = {n: [1, 17] if n in (2, 5, 6, 9, 11) else [1] if n < 4 else [90, 90] for n in range(1, 12)} | {12: []}
    write_instances(tmp_path, kinds)
    of = Source(SETUPS["coco"].recipe(), SETUPS["coco"].splits, tmp_path)
    found = registry.create("fig4").compute(of)
    labels = of.unseen.labels.values
    fitting = checked_quartet(
        found, of.unseen, lambda row, image: (labels[of.unseen.caption_image[row]] == labels[image]).all()
    )
    sizes = [sum(sorted(set(a)) == sorted(set(b)) for b in kinds.values()) for a in kinds.values() if a]
    assert fitting == pytest.approx(np.mean(sizes))
    assert found.why in ("all show person, cat", "all show toothbrush")
    write_instances(tmp_path, {})
    with pytest.raises(DataError, match="four images and captions"):
        registry.create("fig4").compute(Source(of.recipe, of.splits, tmp_path))


def test_the_quartet_is_drawn_with_its_images_captions_and_the_answer(aviary):
    sheet = registry.create("fig4")
    found = sheet.compute(aviary)
    (axes,) = sheet.draw(found, aviary.unseen.images).axes
    assert (len(axes.images), len(axes.patches)) == (4, 4)
    text = "\n".join(part.get_text() for part in axes.texts)
    assert all(f"{letter})  {words[:20]}" in text for letter, words in zip("abcd", found.captions, strict=True))
    answer = ", ".join(f"{'ABCD'[owner]}: {'abcd'[found.owner.index(owner)]}" for owner in range(4))
    assert f"Annotated are {answer}" in " ".join(text.split())
    assert not sheet.draw(found).axes[0].images, "from the record alone there are only frames"


@pytest.mark.parametrize("world", ["aviary", "coco"])
def test_plausible_matches_differ_in_as_many_labels_as_they_say(world, aviary, tmp_path):
    of = aviary
    if world == "coco":
        write_coco(tmp_path, ["test"] * 12)
        kinds = [[1], [1, 17], [1, 17, 90], [1], [17], [1, 17], [1, 17, 90], [1], [90], [17], [1], [17]]
        write_instances(tmp_path, dict(enumerate(kinds, start=1)))
        of = Source(SETUPS["coco"].recipe(), SETUPS["coco"].splits, tmp_path)
    dataset, sheet = of.unseen, registry.create("fig-c2")
    found, labels = sheet.compute(of), of.unseen.labels.values.astype(bool)
    assert {match.distance for match in found.matches} == ({0, 2} if world == "aviary" else {0, 1, 2})
    for match in found.matches:
        assert match.row != found.query.row
        assert (labels[match.row] != labels[found.query.row]).sum() == match.distance
        assert match.labels == tuple(np.array(dataset.labels.names)[labels[match.row]])
        assert match.caption in [dataset.captions[n] for n in np.flatnonzero(dataset.caption_image == match.row)]
    for radius, count in found.within:
        loop = [sum((a != b).sum() <= radius for b in labels) for a in labels]
        assert count == pytest.approx(np.mean(loop))
    counts = [count for _, count in found.within]
    assert counts == sorted(counts), "a larger ζ makes R larger"
    (axes,) = sheet.draw(found, dataset.images).axes
    titles = {text.get_text() for text in axes.texts}
    assert {"query", *(f"ζ = {match.distance}" for match in found.matches)} <= titles
    assert len(axes.images) == len(axes.patches) == 1 + len(found.matches)


def test_labels_that_differ_are_marked_and_labels_must_be_there(tmp_path, aviary):
    sheet = registry.create("fig-c2")
    found = sheet.compute(aviary)
    text = " ".join(part.get_text() for part in sheet.draw(found).axes[0].texts)
    assert "[+" in text
    assert "[−" in text
    with pytest.raises(DataError, match="must have labels"):
        sheet.compute(given(photos(tmp_path)))


def test_images_that_are_missing_leave_with_their_captions(tmp_path):
    write_coco(tmp_path, ["test"] * 3)
    next((tmp_path / "val2014").iterdir()).unlink()
    of = Source(SETUPS["coco"].recipe(), SETUPS["coco"].splits, tmp_path)
    assert len(of.unseen.images) == 2
    assert len(of.annotations("test").images) == 3
