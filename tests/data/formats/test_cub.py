"""CUB: the true layout, written small; and the real one, where PCME_DATA points at it."""

import shutil
from collections import Counter
from functools import partial

import pytest

from pcme.data import Problems, find
from pcme.data.formats.cub import CUB
from pcme.data.layout import ClassFold
from pcme.errors import ConfigError, FormatError
from pcme.recipes import get
from pcme.recipes.cub import NINE
from tests.data.formats.birds import folded, images_of, write
from tests.data.formats.reading import ids, load_as, named
from tests.helpers import real

CLASSES = ["001.Auk", "002.Jay", "003.Owl", "004.Wren"]  # three of trainval, one unseen
LISTS = {
    "trainvalclasses.txt": CLASSES[:3],
    "testclasses.txt": CLASSES[3:],
    **{f"trainclasses{k}.txt": CLASSES[:2] for k in (1, 2, 3)},
    **{f"valclasses{k}.txt": CLASSES[2:3] for k in (1, 2, 3)},
    # As in the published list, a "seen" image may be of an unseen class.
    "seen_test_images.txt": ["001.Auk/Auk_0.jpg", "003.Owl/Owl_1.jpg", "004.Wren/Wren_0.jpg"],
}


IMAGES = images_of(CLASSES)
load = partial(load_as, CUB)


@pytest.fixture
def root(tmp_path):
    return write(tmp_path, CLASSES, LISTS)


def test_splits_are_those_of_the_classes_without_or_with_the_held_out_images(root):
    assert find(root) == CUB(root)
    splits = {split: ids(CUB(root).load(split)) for split in ("train", "seen", "test", "train1", "val1")}
    held_out = LISTS["seen_test_images.txt"]
    seen = [name for name in IMAGES[:9] if name not in held_out]
    assert splits == {
        "train": seen,
        "seen": held_out[:2],
        "test": IMAGES[9:],
        "train1": [name for name in seen if not name.startswith("003")],
        "val1": [name for name in seen if name.startswith("003")],
    }


def test_folds_are_those_of_which_both_lists_are_there_and_share_no_class(tmp_path):
    birds = CUB(folded(tmp_path))
    assert birds.folds == tuple(ClassFold(f"train{k}", f"val{k}") for k in (1, 2, 3))
    for fold in birds.folds:
        learnt, judging = (set(birds.load(split).classes.names) for split in (fold.train, fold.val))
        assert not learnt & judging
        assert len(learnt | judging) == 6
    (tmp_path / "splits" / "valclasses2.txt").unlink()
    assert [fold.val for fold in birds.folds] == ["val1", "val3"]


def test_captions_match_all_images_of_their_class(root):
    train = CUB(root).load("train")
    assert (train.captions[0], len(train.captions)) == ("Auk_1 caption 0", 70)
    for caption, row in enumerate(train.matches()):
        own = train.images.id(int(train.caption_image[caption])).partition("/")[0]
        assert row.tolist() == [i for i, name in enumerate(ids(train)) if name.startswith(own)]


def test_what_is_missing_is_reported_a_class_once_and_the_rest_loads(root):
    shutil.rmtree(root / "images" / "002.Jay")
    (root / "images" / "001.Auk" / "Auk_1.jpg").unlink()
    (root / "text_c10" / "003.Owl" / "Owl_0.txt").unlink()
    train, problems = load(root, "train")
    assert ids(train) == ["001.Auk/Auk_2.jpg", "003.Owl/Owl_2.jpg"]
    assert named(problems) == {
        "image-missing": ["001.Auk/Auk_1.jpg"],
        "image-without-captions": ["003.Owl/Owl_0.jpg"],
        "class-missing": ["002.Jay"],
    }


def test_without_images_txt_the_folders_are_listed_and_split_files_may_lie_in_the_root(root):
    expected = ids(CUB(root).load("train"))
    (root / "images.txt").unlink()
    for path in (root / "splits").iterdir():
        path.rename(root / path.name)
    assert ids(CUB(root).load("train")) == expected


def divide(root, training):
    """CUB-200-2011's own division: these images are its training half."""
    rows = (f"{number} {int(name in training)}\r\n" for number, name in enumerate(IMAGES, start=1))
    (root / "train_test_split.txt").write_bytes("".join(rows).encode())


def test_some_classes_of_any_list_are_divided_by_the_training_images_of_cub_itself(root):
    divide(root, [IMAGES[0], IMAGES[4], IMAGES[9], IMAGES[10]])
    chosen = CUB(root, classes=["004.Wren", "001.Auk"])
    assert find(root, classes=("004.Wren", "001.Auk")) == chosen
    assert chosen.splits == ("train", "test")
    train, test = map(chosen.load, chosen.splits)
    assert ids(train) == [IMAGES[0], IMAGES[9], IMAGES[10]]
    assert ids(test) == [IMAGES[1], IMAGES[2], IMAGES[11]]
    assert train.classes.names == test.classes.names == ("001.Auk", "004.Wren")
    assert train.matches().counts.tolist() == [1] * 10 + [2] * 20
    assert ids(CUB(root).load("test")) == IMAGES[9:], "without a choice it is as it was"


def test_a_choice_of_classes_that_cannot_be_read_is_explained(root):
    with pytest.raises(FormatError, match=r"has no images\.txt and train_test_split\.txt.* Put those of CUB-200-2011"):
        CUB(root, classes=["001.Auk"]).load("train")
    divide(root, IMAGES[:2])
    with pytest.raises(ConfigError, match='no split "val1", it has train, test'):
        CUB(root, classes=["001.Auk"]).load("val1")
    with pytest.raises(ConfigError, match="classes: must be a list of names of folders"):
        CUB(root, classes="001.Auk")
    train, problems = load(root, "train", classes=["001.Auk", "009.Dodo"])
    assert ids(train) == IMAGES[:2]
    assert named(problems) == {"class-missing": ["009.Dodo"]}


def test_without_split_files_the_error_says_what_to_get(root):
    (root / "splits" / "seen_test_images.txt").unlink()
    with pytest.raises(FormatError, match=r"seen_test_images.txt: is missing"):
        CUB(root).load("train")
    with pytest.raises(ConfigError, match='no split "val", it has train, test, seen'):
        CUB(root).load("val")
    shutil.rmtree(root / "splits")
    with pytest.raises(FormatError, match="zero-shot splits of Xian"):
        CUB(root).load("train")


# The facts about the real dataset. The numbers of the whole one are checked against its lists,
# which are complete even where most images are not.


def lines(path):
    return [line.strip() for line in path.read_text().splitlines() if line.strip()]


def test_the_real_lists_have_the_published_sizes():
    root = real("cub")
    trainval, unseen = (lines(root / "splits" / f"{name}classes.txt") for name in ("trainval", "test"))
    assert (len(trainval), len(unseen), len({*trainval, *unseen})) == (150, 50, 200)
    for fold in (1, 2, 3):
        train, val = (lines(root / "splits" / f"{name}classes{fold}.txt") for name in ("train", "val"))
        assert (len(train), len(val), {*train, *val}) == (100, 50, set(trainval))
    judging = Counter(name for fold in (1, 2, 3) for name in lines(root / "splits" / f"valclasses{fold}.txt"))
    assert (len(judging), sum(count > 1 for count in judging.values())) == (106, 37)  # they overlap, and 44 never judge
    listing = [line.split()[1] for line in lines(root / "images.txt")]
    seen = set(lines(root / "splits" / "seen_test_images.txt"))
    of_seen_classes = {name for name in listing if name.partition("/")[0] in trainval}
    assert (len(listing), len(seen)) == (11_788, 1_764)
    assert len(seen - of_seen_classes) == 10  # of unseen classes: they are in test
    counts = (len(of_seen_classes - seen), len(listing) - len(of_seen_classes), len(of_seen_classes & seen))
    assert dict(zip(("train", "test", "seen"), counts, strict=True)) == dict(CUB.expected)


def test_the_real_images_here_are_each_in_one_of_the_three_splits_and_folds_share_no_class():
    root = real("cub")
    problems = Problems()
    loaded = [CUB(root).load(split, problems) for split in ("train", "test", "seen")]
    listed = [name for dataset in loaded for name in ids(dataset)]
    here = root.glob("images/*/*.jpg")
    assert sorted(listed) == sorted(path.relative_to(root / "images").as_posix() for path in here)
    assert all(len(d.captions) == 10 * len(d.images) for d in loaded)
    assert set(problems.counts) <= {"class-missing"}
    for fold in (1, 2, 3):
        train, val = CUB(root).load(f"train{fold}"), CUB(root).load(f"val{fold}")
        assert not set(train.classes.names) & set(val.classes.names)
        assert {*ids(train), *ids(val)} == {*ids(loaded[0])}


def test_the_nine_classes_of_fig_5_are_here_as_cub_divides_them():
    """Paper: §C.3. Two of them are test classes of Xian et al."""
    root = real("cub")
    toy = CUB(root, **get("cub-toy").data.params)
    train, test = map(toy.load, toy.splits)
    assert (len(train.images), len(test.images)) == (270, 270)
    assert sorted(train.classes.names) == sorted(NINE)
    assert not {*ids(train)} & {*ids(test)}
    assert len({*NINE} & {*lines(root / "splits" / "testclasses.txt")}) == 2
