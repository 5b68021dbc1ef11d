import shutil
import tarfile

import pytest

from pcme.data import create, find
from pcme.data.formats.own import Own
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError
from tests.data.formats.reading import ids
from tests.helpers import picture


def table(root, count=20, splits=()):
    """`count` pictures with two captions each; image i is in split i modulo the splits."""
    rows = ["image,caption" + (",split" if splits else "")]
    for number in range(count):
        picture(root / f"{number}.jpg", colour=(10 * number, 90, 50))
        end = f",{splits[number % len(splits)]}" if splits else ""
        rows += [f"{number}.jpg,bird number {number}{end}", f"{number}.jpg,a bird{end}"]
    (root / "captions.csv").write_text("\n".join(rows))
    return root


def sidecar(root, count=20):
    for number in range(count):
        picture(root / f"{number}.jpg", colour=(10 * number, 90, 50))
        (root / f"{number}.txt").write_text(f"bird number {number}\na bird\n")
    return root


def shards(root):
    sidecar(root / "loose")
    with tarfile.open(root / "part-000.tar", "w") as tar:
        for path in (root / "loose").iterdir():
            tar.add(path, path.name)
    shutil.rmtree(root / "loose")
    return root


@pytest.mark.parametrize("write", [table, sidecar, shards])
def test_every_layout_has_the_same_tenth_held_back_in_every_run(tmp_path, write):
    own = Own(write(tmp_path))
    assert own.splits == ("train", "val")
    train, val = own.load("train"), own.load("val")
    assert (len(train.images), len(val.images)) == (18, 2)
    assert not set(ids(train)) & set(ids(val))
    assert (train.split, val.split) == ("train", "val")
    assert len(set(val.caption_image.tolist())) == 2
    assert ids(own.load("val")) == ids(val) != ids(Own(tmp_path, seed=1).load("val"))


@pytest.mark.parametrize(("share", "held"), [(0.25, 5), (0.001, 1), (0.999, 19)])
def test_at_least_one_image_is_on_either_side(tmp_path, share, held):
    own = Own(table(tmp_path), share=share)
    assert (len(own.load("train").images), len(own.load("val").images)) == (20 - held, held)


@pytest.mark.parametrize("name", ["val", "validation", "valid", "dev"])
def test_a_split_for_validation_is_used_whatever_it_is_called(tmp_path, name):
    own = Own(table(tmp_path, splits=("train", name, "test")))
    assert own.splits == ("train", "val", "test")
    for number, split in enumerate(own.splits):
        assert ids(own.load(split)) == [f"{i}.jpg" for i in range(number, 20, 3)]


def test_the_test_split_is_never_used_for_validation(tmp_path):
    own = Own(table(tmp_path, splits=("train", "test")))
    train, val, test = (ids(own.load(split)) for split in ("train", "val", "test"))
    assert test == [f"{i}.jpg" for i in range(1, 20, 2)]
    assert {*train, *val} == {f"{i}.jpg" for i in range(0, 20, 2)}
    assert len(train + val) == 10


def test_what_is_wrong_is_reported_once(tmp_path):
    (table(tmp_path) / "7.jpg").unlink()
    problems = Problems()
    for split in ("train", "val"):
        Own(tmp_path).load(split, problems)
    assert problems.record()["image-missing"]["count"] == 1


def test_what_cannot_be_split_is_explained(tmp_path):
    with pytest.raises(ConfigError, match='no split "train", it has one, two'):
        Own(table(tmp_path / "a", splits=("one", "two"))).load("train")
    with pytest.raises(DataError, match="got 1"):
        Own(table(tmp_path / "b", count=1)).load("val")
    with pytest.raises(ConfigError, match='no split "dev"'):
        Own(table(tmp_path / "c")).load("dev")
    with pytest.raises(ConfigError, match="between 0 and 1"):
        Own(tmp_path, share=0)
    (tmp_path / "d").mkdir()
    with pytest.raises(ConfigError, match="Known layouts"):
        Own(tmp_path / "d").load("train")


def test_a_folder_is_found_as_what_it_is_and_a_root_may_be_text(tmp_path):
    """As a recipe's JSON, or --set data.root=..., has it."""
    folder = table(tmp_path)
    assert type(find(folder)).__name__ == "Table"
    assert create("own", root=str(folder)) == create("own", root=folder) == Own(folder)
