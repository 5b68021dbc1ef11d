"""What can be added: the same in Python as on the command line, and no item taken for another."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pcme import Points, SearchIndex
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError
from pcme.index.items import Embeddings
from pcme.index.vector_files import NumpyVectors
from tests.helpers import picture, random_gaussians, unless_annotations_are_enforced
from tests.index.worlds import drawn, split, untrained


@pytest.fixture(scope="module")
def model():
    return untrained()


@pytest.fixture
def index(tmp_path, model):
    return SearchIndex.create(tmp_path / "index", model)


def folder(path, *names):
    """A folder of small pictures."""
    for n, name in enumerate(names):
        picture(path / name, colour=(40 * n, 90, 200))
    return path


def test_folders_of_one_name_are_not_taken_for_one(index, tmp_path):
    index.add(folder(tmp_path / "A/photos", "1.png"))
    other = folder(tmp_path / "B/photos", "0.png", "1.png")
    with pytest.raises(DataError, match=r"A/photos/1\.png.*B/photos/1\.png.*--replace"):
        index.add(other)
    assert index.ids() == ["photos/1.png"]  # not even 0.png, which is new
    assert index.add(other, on_conflict="replace").replaced == 1
    assert index.add(other).present == 2


def test_a_caption_that_has_changed_is_not_there_already(index, tmp_path):
    file = tmp_path / "c.txt"
    file.write_text("a red bird\na blue bird\n")
    assert index.add(file).added == 2
    assert index.add(str(file)).present == 2
    file.write_text("a red bird\na green bird\n")
    with pytest.raises(DataError, match='"a blue bird", got the caption "a green bird"'):
        index.add(file)


def test_an_image_is_not_taken_for_a_caption(index, tmp_path):
    index.add([Image.new("RGB", (20, 20))], ids=["x"])
    with pytest.raises(DataError, match='the caption "a bird"'):
        index.add(["a bird"], ids=["x"], kind="caption")


def test_sources_that_go_in_together_have_ids_of_their_own(tmp_path):
    index, _ = drawn(tmp_path / "index", 0)
    same = [Embeddings(["x"], items_of(n), paths=["/a/x.jpg"]) for n in range(2)]
    assert index.add(same).added == 1
    for path in (["/b/y.jpg"], None):
        pair = [
            Embeddings(["y"], items_of(0), paths=["/a/y.jpg"]),
            Embeddings(["y"], items_of(1), paths=path),
        ]
        with pytest.raises(DataError, match=r'id "y": the image /a/y\.jpg and'):
            index.add(pair, on_conflict="replace")
    assert index.ids() == ["x"]


def items_of(seed):
    return random_gaussians(1, 4, seed=seed)


def test_an_id_is_given_twice_however_far_apart(tmp_path):
    index, _ = drawn(tmp_path / "index", 0)
    source = Embeddings(["a", "b", "c", "a"], random_gaussians(4, 4, seed=0), chunk=2)
    with pytest.raises(DataError, match='"a" is given twice'):
        index.add(source)
    assert len(index) == 0


@unless_annotations_are_enforced
def test_an_id_is_text(tmp_path):
    index, items = drawn(tmp_path / "index", 1)
    with pytest.raises(DataError, match="text that is not empty, got 3"):
        index.add(items, ids=[3])


def test_ids_and_metadata_of_a_dataset(index):
    dataset = split(images=4)
    index.add(dataset, {"year": [1, 2, 3, 4]}, ids=list("abcd"))
    hit = index.search("a bird", where="year = 3")[0]
    assert (hit.id, hit.metadata["year"], hit.metadata["split"]) == ("c", 3, "test")
    with pytest.raises(DataError, match="metadata: must be one per item"):
        index.add(dataset, {"year": [1, 2, 3]})
    with pytest.raises(DataError, match="ids: must be one per item"):
        index.add(dataset, ids=["a"])


def test_ids_and_metadata_of_a_folder(index, tmp_path):
    photos = folder(tmp_path / "photos", "1.png", "2.png")
    index.add(photos, {"year": [1, 2]}, ids=["x", "y"])
    assert index.search("a bird", where="year = 2").ids == ["y"]
    with pytest.raises(ConfigError, match="one folder, file or split, got 2"):
        index.add(list(map(source_of_points, ("a", "b"))), {"year": [1]})


def source_of_points(name):
    return Embeddings([name], Points(random_gaussians(1, 16, seed=0).mean[:, None]))


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
    photos = folder(tmp_path / "photos", "1.png", "2.png", "3.png")
    assert index.add(photos).added == 3
    (photos / "1.txt").write_text("a red bird\na bird\n")
    assert index.add(photos).present == 3
    problems = Problems()
    assert index.add(photos, kind="caption", problems=problems).added == 2
    assert not problems
    assert index.ids("kind = 'caption'") == ["photos/1.png#0", "photos/1.png#1"]
    assert index.ids("image = 'photos/1.png'") == ["photos/1.png#0", "photos/1.png#1"]


def test_pictures_have_no_captions(index, tmp_path):
    photos = folder(tmp_path / "photos", "1.png")
    for where in (photos, photos / "1.png"):
        with pytest.raises(ConfigError, match="has no captions, it is a"):
            index.add(where, kind="caption")


def test_nothing_is_no_path(index):
    with pytest.raises(ConfigError, match="current folder"):
        index.add("")


def test_numbers_stand_in_for_names_that_are_not_there(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 3), np.float32))
    pq.write_table(pa.table({"key": ["k", None]}), tmp_path / "known.parquet")
    assert NumpyVectors(tmp_path / "a.npy", "image", tmp_path / "known.parquet").ids == ["k", "a/1"]
