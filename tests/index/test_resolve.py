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
from tests.helpers import picture
from tests.index.worlds import folder_of_images, untrained


def test_a_folder_of_pictures(tmp_path):
    index = SearchIndex.create(tmp_path / "index", untrained())
    for name in ("photos/a.png", "photos/deep/b.jpg", "photos/.hidden/c.jpg"):
        picture(tmp_path / name, colour=(len(name) * 9, 60, 40))
    (tmp_path / "photos/empty.jpg").touch()
    (tmp_path / "photos/notes.txt").write_text("no picture")
    problems = Problems()
    seen = []
    done = index.add(tmp_path / "photos", problems=problems, progress=lambda *counts: seen.append(counts))
    assert (done.added, seen, problems.counts) == (2, [("items", 3, 3)], {"image-empty": 1})
    hits = index.search(tmp_path / "photos/a.png")
    assert hits.ids == ["photos/a.png", "photos/deep/b.jpg"]
    assert Path(hits[0].path) == (tmp_path / "photos/a.png").resolve()
    with pytest.raises(DataError, match="0 bytes"):
        index.add(tmp_path / "photos/empty.jpg")
    with pytest.raises(DataError, match="no images"):
        index.add(tmp_path / "index")
    with pytest.raises(DataError, match="neither a folder nor a file"):
        index.add(tmp_path / "nowhere")


def test_pictures_and_captions_one_by_one(tmp_path):
    index = SearchIndex.create(tmp_path / "index", untrained())
    path = picture(tmp_path / "a.png")
    index.add([path, Image.new("RGB", (20, 20), "red")], ids=["file", "memory"])
    index.add(["a red bird", "a blue bird"], {"by": ["Ann", "Bob"]}, kind="caption")
    assert index.describe().kinds == {"image": 2, "caption": 2}
    assert index.search("a red bird", k=1, kind="caption")[0].metadata == {"by": "Ann"}
    with pytest.raises(DataError, match="images in memory need ids"):
        index.add([Image.new("RGB", (20, 20))])
    with pytest.raises(DataError, match="no words"):
        index.add(["..."], kind="caption")


def test_files_are_what_they_are_on_the_command_line(tmp_path):
    index = SearchIndex.create(tmp_path / "vectors", dim=6)
    vectors = np.eye(6, dtype=np.float32)[:3]
    np.save(tmp_path / "a.npy", vectors)
    pq.write_table(pa.table({"id": ["p"], "mean": [[0.5] * 6]}), tmp_path / "b.parquet")
    (tmp_path / "clip/text_emb").mkdir(parents=True)
    np.save(tmp_path / "clip/text_emb/text_emb_0.npy", vectors)
    for name in ("a.npy", "b.parquet", "clip"):
        index.add(tmp_path / name)
    expected = [*(f"a/{n}" for n in range(3)), "p", *(f"text_emb_0/{n}" for n in range(3))]
    assert index.ids() == expected
    assert index.describe().kinds == {"image": 4, "caption": 3}
    np.save(tmp_path / "c.npy", vectors)
    index.add(str(tmp_path / "c.npy"), kind="caption")
    assert index.describe().kinds == {"image": 4, "caption": 6}
    with pytest.raises(ConfigError, match="a file of vectors has its own"):
        index.add(tmp_path / "a.npy", {"year": [1, 2, 3]})


def test_a_caption_beside_one_image_leaves_no_other_out(index, tmp_path):
    photos = folder_of_images(tmp_path / "photos", "1.png", "2.png", "3.png")
    assert index.add(photos).added == 3
    (photos / "1.txt").write_text("a red bird\na bird\n")
    assert index.add(photos).present == 3
    problems = Problems()
    assert index.add(photos, kind="caption", problems=problems).added == 2
    assert not problems
    assert index.ids("kind = 'caption'") == ["photos/1.png#0", "photos/1.png#1"]
    assert index.ids("image = 'photos/1.png'") == ["photos/1.png#0", "photos/1.png#1"]


def test_pictures_have_no_captions(index, tmp_path):
    photos = folder_of_images(tmp_path / "photos", "1.png")
    for where in (photos, photos / "1.png"):
        with pytest.raises(ConfigError, match="has no captions, it is a"):
            index.add(where, kind="caption")


def test_nothing_is_no_path(index):
    with pytest.raises(ConfigError, match="current folder"):
        index.add("")
