"""What can be added: the same in Python as on the command line, and no item taken for another."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pcme.errors import ConfigError, DataError
from pcme.index.items import Embeddings
from pcme.index.vector_files import NumpyVectors
from tests.helpers import random_gaussians
from tests.index.worlds import drawn, folder_of_images, split


def source(name, seed=0, *, dim=4, **options):
    return Embeddings([name], random_gaussians(1, dim, seed=seed), **options)


def test_folders_of_one_name_are_not_taken_for_one(index, tmp_path):
    index.add(folder_of_images(tmp_path / "A/photos", "1.png"))
    other = folder_of_images(tmp_path / "B/photos", "0.png", "1.png")
    with pytest.raises(DataError, match=r"A/photos/1\.png.*B/photos/1\.png.*--replace"):
        index.add(other)
    assert index.ids() == ["photos/1.png"]  # not even 0.png, which is new
    assert index.add(other, on_conflict="replace").replaced == 1
    assert index.add(other).present == 2


def test_a_caption_is_not_taken_for_another_nor_for_an_image(index, tmp_path):
    file = tmp_path / "c.txt"
    file.write_text("a red bird\na blue bird\n")
    assert index.add(file).added == 2
    assert index.add(str(file)).present == 2
    file.write_text("a red bird\na green bird\n")
    with pytest.raises(DataError, match='"a blue bird", got the caption "a green bird"'):
        index.add(file)
    index.add([Image.new("RGB", (20, 20))], ids=["x"])
    with pytest.raises(DataError, match='the caption "a bird"'):
        index.add(["a bird"], ids=["x"], kind="caption")


def test_sources_that_go_in_together_have_ids_of_their_own(tmp_path):
    index, _ = drawn(tmp_path / "index", 0)
    assert index.add([source("x", n, paths=["/a/x.jpg"]) for n in range(2)]).added == 1
    for paths in (["/b/y.jpg"], None):
        pair = [source("y", paths=["/a/y.jpg"]), source("y", 1, paths=paths)]
        with pytest.raises(DataError, match=r'id "y": the image /a/y\.jpg and'):
            index.add(pair, on_conflict="replace")
    with pytest.raises(DataError, match='"a" is given twice'):  # however far apart
        index.add(Embeddings(["a", "b", "c", "a"], random_gaussians(4, 4, seed=0), chunk=2))
    assert index.ids() == ["x"]


def test_ids_and_metadata_of_a_dataset_and_of_a_folder(index, tmp_path):
    dataset = split(images=4)
    index.add(dataset, {"year": [1, 2, 3, 4]}, ids=list("abcd"))
    hit = index.search("a bird", where="year = 3")[0]
    assert (hit.id, hit.metadata["year"], hit.metadata["split"]) == ("c", 3, "test")
    with pytest.raises(DataError, match="metadata: must be one per item"):
        index.add(dataset, {"year": [1, 2, 3]})
    with pytest.raises(DataError, match="ids: must be one per item"):
        index.add(dataset, ids=["a"])
    photos = folder_of_images(tmp_path / "photos", "1.png", "2.png")
    index.add(photos, {"year": [1, 9]}, ids=["x", "y"])
    assert index.search("a bird", where="year = 9").ids == ["y"]
    with pytest.raises(ConfigError, match="one folder, file or split, got 2"):
        index.add([source("a", dim=16), source("b", dim=16)], {"year": [1]})


def test_numbers_stand_in_for_names_that_are_not_there(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 3), np.float32))
    pq.write_table(pa.table({"key": ["k", None]}), tmp_path / "known.parquet")
    assert NumpyVectors(tmp_path / "a.npy", "image", tmp_path / "known.parquet").ids == ["k", "a/1"]
