"""CUB: the true layout, written small; and the real one, where PCME_DATA points at it."""

import pytest

from pcme.data import Problems, find
from pcme.data.formats.cub import CUB
from pcme.errors import ConfigError, DataError, FormatError
from tests.helpers import picture, real

CLASSES = ["001.Auk", "002.Jay", "003.Owl", "004.Wren"]  # three of trainval, one unseen
LISTS = {
    "trainvalclasses.txt": CLASSES[:3],
    "testclasses.txt": CLASSES[3:],
    **{f"trainclasses{k}.txt": CLASSES[:2] for k in (1, 2, 3)},
    **{f"valclasses{k}.txt": CLASSES[2:3] for k in (1, 2, 3)},
    # As in the published list, a "seen" image may be of an unseen class.
    "seen_test_images.txt": ["001.Auk/Auk_0.jpg", "003.Owl/Owl_1.jpg", "004.Wren/Wren_0.jpg"],
}


def names(dataset):
    return [dataset.images.id(i) for i in range(len(dataset.images))]


@pytest.fixture
def root(tmp_path):
    listing = []
    for class_name in CLASSES:
        bird = class_name.partition(".")[2]
        for number in range(3):
            name = f"{class_name}/{bird}_{number}.jpg"
            listing.append(name)
            picture(tmp_path / "images" / name)
            text = tmp_path / "text_c10" / class_name / f"{bird}_{number}.txt"
            text.parent.mkdir(parents=True, exist_ok=True)
            text.write_text("".join(f"{bird} {number} caption {c}\n" for c in range(10)))
    index = "".join(f"{i} {name}\r\n" for i, name in enumerate(listing, start=1))
    (tmp_path / "images.txt").write_bytes(index.encode())
    (tmp_path / "splits").mkdir()
    for file, lines in LISTS.items():
        (tmp_path / "splits" / file).write_text("\n".join(lines) + "\n")
    return tmp_path


def test_the_layout_is_recognised(root):
    assert find(root) == CUB(root)


def test_train_is_the_seen_classes_without_the_held_out_images(root):
    train = CUB(root).load("train")
    assert names(train) == [
        "001.Auk/Auk_1.jpg", "001.Auk/Auk_2.jpg", "002.Jay/Jay_0.jpg", "002.Jay/Jay_1.jpg",
        "002.Jay/Jay_2.jpg", "003.Owl/Owl_0.jpg", "003.Owl/Owl_2.jpg",
    ]  # fmt: skip
    assert train.captions[0] == "Auk 1 caption 0"
    assert len(train.captions) == 70


def test_seen_is_the_held_out_images_of_seen_classes(root):
    assert names(CUB(root).load("seen")) == ["001.Auk/Auk_0.jpg", "003.Owl/Owl_1.jpg"]


def test_the_unseen_classes_keep_all_their_images(root):
    assert names(CUB(root).load("test")) == [f"004.Wren/Wren_{i}.jpg" for i in range(3)]


def test_folds_leave_the_held_out_images_alone(root):
    train, val = CUB(root).load("train1"), CUB(root).load("val1")
    assert {name.partition("/")[0] for name in names(train)} == {"001.Auk", "002.Jay"}
    assert names(val) == ["003.Owl/Owl_0.jpg", "003.Owl/Owl_2.jpg"]
    assert "001.Auk/Auk_0.jpg" not in names(train)


def test_captions_match_all_images_of_their_class(root):
    train = CUB(root).load("train")
    for caption, row in enumerate(train.matches()):
        own = train.images.id(int(train.caption_image[caption])).partition("/")[0]
        expected = [i for i, name in enumerate(names(train)) if name.startswith(own)]
        assert row.tolist() == expected


def test_a_missing_class_is_reported_once_and_the_rest_loads(root):
    for path in (root / "images" / "002.Jay").iterdir():
        path.unlink()
    (root / "images" / "002.Jay").rmdir()
    problems = Problems()
    train = CUB(root).load("train", problems)
    assert len(train.images) == 4
    assert problems.counts == {"class-missing": 1}
    assert problems.kept("class-missing")[0].where == "002.Jay"


def test_a_missing_image_and_a_missing_caption_file_are_reported(root):
    (root / "images" / "002.Jay" / "Jay_1.jpg").unlink()
    (root / "text_c10" / "003.Owl" / "Owl_0.txt").unlink()
    problems = Problems()
    assert len(CUB(root).load("train", problems).images) == 5
    assert problems.counts == {"image-missing": 1, "image-without-captions": 1}
    with pytest.raises(DataError, match="image-"):
        CUB(root).load("train", Problems(strict=True))


def test_without_images_txt_the_folders_are_listed(root):
    expected = names(CUB(root).load("train"))
    (root / "images.txt").unlink()
    assert names(CUB(root).load("train")) == expected


def test_split_files_may_lie_in_the_root(root):
    expected = names(CUB(root).load("test"))
    for path in (root / "splits").iterdir():
        path.rename(root / path.name)
    (root / "splits").rmdir()
    assert names(CUB(root).load("test")) == expected


def test_without_split_files_the_error_says_what_to_get(root):
    for path in (root / "splits").iterdir():
        path.unlink()
    with pytest.raises(FormatError, match="zero-shot splits of Xian"):
        CUB(root).load("train")


def test_an_unknown_split_is_refused(root):
    with pytest.raises(ConfigError, match='no split "val", it has train, test, seen'):
        CUB(root).load("val")


# The facts about the real dataset. The numbers of the whole one are checked against its lists,
# which are complete even where most images are not.


def lines(path):
    return [line.strip() for line in path.read_text().splitlines() if line.strip()]


def test_the_real_lists_have_the_published_sizes():
    splits = real("cub") / "splits"
    trainval, unseen = lines(splits / "trainvalclasses.txt"), lines(splits / "testclasses.txt")
    assert (len(trainval), len(unseen), len({*trainval, *unseen})) == (150, 50, 200)
    for fold in (1, 2, 3):
        train = lines(splits / f"trainclasses{fold}.txt")
        val = lines(splits / f"valclasses{fold}.txt")
        assert (len(train), len(val)) == (100, 50)
        assert {*train, *val} == set(trainval)


def test_the_real_counts_of_the_whole_dataset():
    root = real("cub")
    listing = [line.split()[1] for line in lines(root / "images.txt")]
    trainval = set(lines(root / "splits" / "trainvalclasses.txt"))
    seen = set(lines(root / "splits" / "seen_test_images.txt"))
    of_seen_classes = {name for name in listing if name.partition("/")[0] in trainval}
    assert (len(listing), len(seen)) == (11_788, 1_764)
    assert len(seen - of_seen_classes) == 10  # of unseen classes: they are in test
    counts = {
        "train": len(of_seen_classes - seen),
        "seen": len(of_seen_classes & seen),
        "test": len(listing) - len(of_seen_classes),
    }
    assert counts == dict(CUB.expected)


def test_the_real_images_here_are_each_in_one_of_the_three_splits():
    root = real("cub")
    problems = Problems()
    loaded = [CUB(root).load(split, problems) for split in ("train", "test", "seen")]
    listed = [name for dataset in loaded for name in names(dataset)]
    here = {path.relative_to(root / "images").as_posix() for path in root.glob("images/*/*.jpg")}
    assert len(listed) == len(set(listed))
    assert set(listed) == here
    assert all(len(d.captions) == 10 * len(d.images) for d in loaded)
    assert set(problems.counts) <= {"class-missing"}


@pytest.mark.parametrize("fold", [1, 2, 3])
def test_the_real_folds_share_no_class_and_no_test_image(fold):
    root = real("cub")
    train, val = CUB(root).load(f"train{fold}"), CUB(root).load(f"val{fold}")
    whole = set(names(CUB(root).load("train")))
    assert not set(train.classes.names) & set(val.classes.names)
    assert {*names(train), *names(val)} == whole
