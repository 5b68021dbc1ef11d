"""Rows of a file in the order of a split: by position, by name, or an error that says what does not fit."""

import re
from dataclasses import replace

import numpy as np
import pytest

from pcme.errors import DataError
from pcme.evaluation.rows import Side, in_order, surplus
from tests.evaluation.splits import toy

SPLIT = toy(4, 3)
IMAGES = [f"{n}.jpg" for n in range(4)]
CAPTIONS = [f"{n}.jpg#{c}" for n in range(4) for c in range(3)]


def sides(images=4, captions=12, image_ids=None, caption_ids=None):
    return Side("a.npy", "image", images, image_ids), Side("b.npy", "caption", captions, caption_ids)


def shuffled(names, seed=0):
    return [names[n] for n in np.random.default_rng(seed).permutation(len(names))]


def test_rows_without_names_stand_in_the_order_of_the_split():
    assert in_order(*sides(), SPLIT) == (None, None)
    assert surplus(*sides(), SPLIT) == []


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((12, 12), r"got 12 and 12\. Images look repeated, once per caption: keep one row in 3 \(\[::3\]\)"),
        ((12, 4), r"got 12 and 4\. Images and captions look exchanged: images come first, in a matrix as its rows"),
        ((4, 13), r"got 4 and 13\. Some captions do not count \(3 of an image at the most\): name the rows with --ids"),
        ((4, 11), r"got 4 and 11\. Give their rows in the order of the split, or name them with --ids"),
        ((5, 12), r"a\.npy and b\.npy: must have 4 images and 12 captions, those of toy/test, got 5 and 12\."),
    ],
)
def test_other_counts_are_explained(counts, message):
    with pytest.raises(DataError, match=message):
        in_order(*sides(*counts), SPLIT)


def test_images_that_differ_in_captions_cannot_be_picked_by_a_step():
    uneven = replace(SPLIT, caption_image=np.sort(np.append(SPLIT.caption_image[:-1], 0)))
    with pytest.raises(DataError, match="once per caption: keep the row of the first caption of each"):
        in_order(*sides(12, 12), uneven)


def test_named_rows_may_have_any_order_and_be_more_than_the_split_has():
    more = [*IMAGES, "elsewhere.jpg"]
    images, captions = shuffled(more), shuffled(CAPTIONS, 1)
    named = sides(5, 12, images, captions)
    first, second = in_order(*named, SPLIT)
    assert [images[row] for row in first] == IMAGES
    assert [captions[row] for row in second] == CAPTIONS
    assert surplus(*named, SPLIT) == ["a.npy: 1 of its 5 images are not of toy/test"]
    only, none = in_order(*sides(5, 12, images), SPLIT)
    assert (only.tolist(), none) == (first.tolist(), None)


@pytest.mark.parametrize(
    "spell",
    [
        lambda number: f"photos/{number}.jpg",
        lambda number: str(number),
        lambda number: f"deep/{number}.png",
        lambda number: str(100 + number),  # COCO's own numbers
    ],
)
def test_a_name_may_lack_or_have_folders_and_ending_or_be_cocos_number(spell):
    order = [2, 0, 3, 1]
    rows, _ = in_order(*sides(image_ids=[spell(number) for number in order]), SPLIT)
    assert rows.tolist() == [1, 3, 0, 2]


def test_a_spelling_that_confuses_items_of_the_split_is_not_used():
    """Without its ending "0.jpg#1" would be the image."""
    rows = in_order(*sides(caption_ids=[f"photos/{name}" for name in CAPTIONS[::-1]]), SPLIT)[1]
    assert rows.tolist() == list(range(11, -1, -1))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (
            ["0.jpg", "1.jpg", "2.jpg", "2.jpg"],
            'ids must be distinct, got "2.jpg" 2 times (1 of the 4 images are repeated)',
        ),
        (
            ["0.jpg", "1.jpg", "2.jpg", "4.jpg"],
            'lacks 1 of the 4 images of toy/test, such as "3.jpg"; its ids are like',
        ),
        (["a", "b", "c", "d"], 'lacks 4 of the 4 images of toy/test, such as "0.jpg"; its ids are like "a"'),
        ([name for name in IMAGES for _ in range(3)], "(4 of the 4 images are repeated). Keep one row of each."),
    ],
)
def test_names_that_are_missing_or_given_twice_are_refused(ids, message):
    with pytest.raises(DataError, match=f"a.npy: .*{re.escape(message)}"):
        in_order(*sides(len(ids), image_ids=ids), SPLIT)


def test_names_are_read_from_a_file_with_a_line_per_row(tmp_path):
    (tmp_path / "ids.txt").write_bytes("\ufeff0.jpg\r\n1.jpg\r\n2.jpg\r\n3.jpg".encode())
    side, _ = sides()
    assert side.named(tmp_path / "ids.txt").ids == IMAGES
    (tmp_path / "few.txt").write_text("0.jpg\n1.jpg\n\n")
    with pytest.raises(DataError, match=r"few\.txt: must have a line per row of a\.npy \(4\), got 3"):
        side.named(tmp_path / "few.txt")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    for name in ("binary.txt", "nowhere.txt"):
        with pytest.raises(DataError, match=f"{name}: cannot be read as text"):
            side.named(tmp_path / name)
