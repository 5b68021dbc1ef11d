import os
import pickle
from functools import partial

import pytest

from pcme.data import find
from pcme.data.formats.sidecar import Sidecar
from pcme.errors import ConfigError, DataError
from tests.data.formats.reading import ids, load_as, named, traced, wheres
from tests.helpers import picture

load = partial(load_as, Sidecar)


def put(root, name, captions=None, *, shade=0):
    """An image, with a text file beside it unless there are no captions."""
    path = picture(root / name, size=(4, 3), colour=(shade, 0, 0))
    if captions is not None:
        path.with_suffix(".txt").write_text(captions, encoding="utf-8")


def test_each_line_beside_an_image_is_a_caption(tmp_path):
    put(tmp_path, "wren.jpg", "a wren\n\na  small bird\r\n")
    put(tmp_path, "birds/jay.PNG", "a jay", shade=200)
    dataset, problems = load(tmp_path)
    assert problems.counts == {}
    assert ids(dataset) == ["wren.jpg", "birds/jay.PNG"]
    assert dataset.captions == ("a wren", "a small bird", "a jay")
    assert dataset.caption_image.tolist() == [0, 0, 1]
    assert dataset.images.load(1).getextrema()[0][1] > 100
    assert dataset.classes is None
    assert ids(pickle.loads(pickle.dumps(dataset))) == ids(dataset)


def test_images_are_known_by_their_extensions_in_the_order_of_their_names(tmp_path):
    names = ["A.bmp", "a.JPEG", "b.jpg", "c.tiff", "m/b.gif", "m/n/a.webp", "z/a.png", "z/b.tif"]
    for name in reversed(names):
        put(tmp_path, name, "x")
    (tmp_path / "b.pdf").write_bytes(b"%PDF")
    assert ids(load(tmp_path)[0]) == names


@pytest.mark.parametrize("elsewhere", ["b.jpg", "more/b.jpg"])
def test_folders_at_the_top_are_splits_if_all_images_lie_in_them(tmp_path, elsewhere):
    for name in ("train/a.jpg", "train/deep/b.jpg", "dev/c.jpg", "test/d.jpg"):
        put(tmp_path, name, "x")
    (tmp_path / "README.txt").write_text("about")
    assert Sidecar(tmp_path).splits == ("train", "dev", "test")
    dataset, problems = load(tmp_path, "train")
    assert ids(dataset) == ["train/a.jpg", "train/deep/b.jpg"]
    assert wheres(problems, "image-missing") == ["README.txt"]
    with pytest.raises(ConfigError, match='no split "all", it has train, dev, test'):
        load(tmp_path)
    put(tmp_path, elsewhere, "y")
    assert Sidecar(tmp_path).splits == ("all",)
    assert len(load(tmp_path)[0].images) == 5


def test_what_cannot_be_used_is_left_out_reported_and_never_opened(tmp_path):
    put(tmp_path, "secret.jpg", "secret words")
    root = tmp_path / "in"
    put(root, "a.jpg", "x")
    put(root, "a.png", "of a.jpg")
    put(root, "alone.jpg")
    put(root, "sub/blank.jpg", "\n \n")
    for name in (".b.jpg", ".cache/c.jpg"):
        put(root, name, "hidden")
    (root / "._a.txt").write_bytes(b"\0\5\x16\7")
    for name in ("alone", "b", "caf\udce9", "loop", "out", "pipe"):
        (root / f"sub/{name}.txt").write_text("y")
    for name, target in (("again", root / "a.jpg"), ("loop", root / "sub/loop.jpg"), ("out", tmp_path / "secret.jpg")):
        (root / f"sub/{name}.jpg").symlink_to(target)
    (root / "sub" / "again.txt").write_text("z")
    put(root, "sub/text-out.jpg")
    (root / "sub" / "text-out.txt").symlink_to(tmp_path / "secret.txt")
    put(root, "sub/text-pipe.jpg")
    for name in ("sub/pipe.jpg", "sub/text-pipe.txt"):
        os.mkfifo(root / name)
    (root / "sub" / "d.jpg").mkdir()
    (root / "sub" / "round").symlink_to(root)
    (root / "caf\udce9").mkdir()
    dataset, problems = load(root)
    assert ids(dataset) == ["a.jpg"]
    assert {kind: sorted(where) for kind, where in named(problems).items()} == {
        "duplicate-id": ["a.jpg", "a.png"],
        "image-missing": ["sub/alone.txt", "sub/b.txt", "sub/loop.jpg"],
        "image-outside": ["sub/out.jpg"],
        "image-unreadable": ["sub/pipe.jpg"],
        "image-without-captions": ["alone.jpg", "sub/blank.jpg", "sub/text-out.jpg", "sub/text-pipe.jpg"],
        "row-malformed": ["caf?", "caf?.txt", "sub/text-out.txt", "sub/text-pipe.txt"],
    }


def test_text_that_is_not_utf8_is_named_with_its_folder_and_line(tmp_path):
    put(tmp_path, "sub/a.jpg", "")
    (tmp_path / "sub" / "a.txt").write_bytes(b"\xef\xbb\xbfone\na caf\xe9\n")
    dataset, problems = load(tmp_path)
    assert dataset.captions == ("one", "a caf�")
    assert wheres(problems, "caption-not-utf8") == ["sub/a.txt:2"]


def test_a_text_file_that_never_ends_is_read_to_a_limit(tmp_path):
    put(tmp_path, "a.jpg", "one more line\n" * 500_000)
    (dataset, problems), peak = traced(load, tmp_path)
    assert len(dataset.captions) == 1000
    assert wheres(problems, "caption-surplus") == ["a.txt"]
    assert peak < 3_000_000


def test_the_folder_may_be_the_class(tmp_path):
    for name in ("train/wren/a.jpg", "train/wren/b.jpg", "train/jay/c.jpg", "test/jay/d.jpg"):
        put(tmp_path, name, name)
    assert load(tmp_path, "train")[0].classes is None
    dataset, _ = load(tmp_path, "train", classes=True)
    assert dataset.classes.names == ("jay", "wren")
    assert dataset.classes.values.tolist() == [0, 1, 1]
    assert dataset.multiplicity().tolist() == [1, 1, 1]
    put(tmp_path, "train/none.jpg", "in no folder")
    assert load(tmp_path, "train", classes=True)[0].classes is None
    matched, problems = load(tmp_path, "train", match="class")
    assert matched.multiplicity().tolist() == [1, 2, 2]
    assert wheres(problems, "row-malformed") == ["train/none.jpg"]


def test_a_folder_without_images_is_an_error(tmp_path):
    with pytest.raises(DataError, match="nothing that can be used, no records"):
        load(tmp_path)
    with pytest.raises(DataError, match="cannot be listed: No such file"):
        load(tmp_path / "gone")


def test_the_folder_is_found(tmp_path):
    put(tmp_path, "deep/down/a.jpg")
    (tmp_path / "prices.csv").write_text("item,price\nx,3\n")
    assert not Sidecar.recognises(tmp_path)
    put(tmp_path, "deep/down/b.jpg", "x")
    assert find(tmp_path) == Sidecar(tmp_path)
    assert not Sidecar.recognises(tmp_path / "deep" / "down" / "b.jpg")
    assert not Sidecar.recognises(tmp_path / "gone")
