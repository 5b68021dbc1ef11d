"""Resolve: the same items in Python as on the command line."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pcme import SearchIndex
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError
from tests.helpers import picture, unless_annotations_are_enforced
from tests.index.worlds import folder_of_images


def test_a_folder_of_images(index, tmp_path):
    photos, counts, problems = tmp_path / "photos", [], Problems()
    folder_of_images(photos, "a.png", "deep/b.jpg", ".hidden/c.jpg")
    (photos / "empty.jpg").touch()
    (photos / "notes.txt").write_text("no image")
    done = index.add(photos, problems=problems, progress=lambda *count: counts.append(count))
    assert (done.added, counts, problems.counts) == (2, [("items", 3, 3)], {"image-empty": 1})
    hits = index.search(photos / "a.png")
    assert hits.ids == ["photos/a.png", "photos/deep/b.jpg"]
    assert Path(hits[0].path) == (photos / "a.png").resolve()


def test_images_and_captions_one_by_one(index, tmp_path):
    images = [picture(tmp_path / "a.png"), Image.new("RGB", (20, 20), "red")]
    index.add(images, ids=["file", "memory"])
    index.add(["a red bird", "a blue bird"], {"by": ["Ann", "Bob"]}, kind="caption")
    assert index.describe().kinds == {"image": 2, "caption": 2}
    assert index.search("a red bird", k=1, kind="caption")[0].metadata == {"by": "Ann"}


@unless_annotations_are_enforced
@pytest.mark.parametrize(
    ("items", "kind", "error", "message"),
    [
        ("photos/empty.jpg", "image", DataError, "0 bytes"),
        ("nothing", "image", DataError, "no images"),
        ("nowhere", "image", DataError, "neither a folder nor a file"),
        ("photos", "caption", ConfigError, "has no captions, it is a"),
        ("photos/1.png", "caption", ConfigError, "has no captions, it is a"),
        ([Image.new("RGB", (20, 20))], "image", DataError, "images in memory need ids"),
        (["..."], "caption", DataError, "no words"),
        (["a bird"], "film", ConfigError, "kind: must be one of image, caption"),
        ("", "image", ConfigError, "current folder"),
    ],
)
def test_what_is_no_item_is_an_error(index, tmp_path, items, kind, error, message):
    folder_of_images(tmp_path / "photos", "1.png")
    (tmp_path / "photos/empty.jpg").touch()
    (tmp_path / "nothing").mkdir()
    with pytest.raises(error, match=message):
        index.add(tmp_path / items if isinstance(items, str) and items else items, kind=kind)
    assert len(index) == 0


def test_files_are_what_they_are_on_the_command_line(tmp_path):
    index = SearchIndex.create(tmp_path / "vectors", dim=6)
    vectors = np.eye(6, dtype=np.float32)[:3]
    (tmp_path / "clip/text_emb").mkdir(parents=True)
    for name in ("a.npy", "c.npy", "clip/text_emb/text_emb_0.npy"):
        np.save(tmp_path / name, vectors)
    pq.write_table(pa.table({"id": ["p"], "mean": [[0.5] * 6]}), tmp_path / "b.parquet")
    for name in ("a.npy", "b.parquet", "clip"):
        index.add(tmp_path / name)
    assert index.ids() == [*(f"a/{n}" for n in range(3)), "p", *(f"text_emb_0/{n}" for n in range(3))]
    assert index.describe().kinds == {"image": 4, "caption": 3}
    index.add(str(tmp_path / "c.npy"), kind="caption")
    assert index.describe().kinds == {"image": 4, "caption": 6}
    with pytest.raises(ConfigError, match="a file of vectors has its own"):
        index.add(tmp_path / "a.npy", {"year": [1, 2, 3]})


def test_a_caption_beside_one_image_leaves_no_other_out(index, tmp_path):
    photos, problems = folder_of_images(tmp_path / "photos", "1.png", "2.png", "3.png"), Problems()
    assert index.add(photos).added == 3
    (photos / "1.txt").write_text("a red bird\na bird\n")
    assert index.add(photos).present == 3
    assert index.add(photos, kind="caption", problems=problems).added == 2
    assert not problems
    for where in ("kind = 'caption'", "image = 'photos/1.png'"):
        assert index.ids(where) == ["photos/1.png#0", "photos/1.png#1"]
