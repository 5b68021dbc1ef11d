"""pcme index and pcme embed: from nothing to an index, and a message for whatever goes wrong."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers import call, picture, printed, record, refused
from tests.index.worlds import untrained


@pytest.fixture
def index(model, tmp_path):
    printed("index", "create", tmp_path / "index", "--model", model)
    return tmp_path / "index"


def test_from_nothing_to_an_index_and_back(model, photos, tmp_path):
    index = tmp_path / "index"
    created = printed("index", "create", index, "--model", model, "--column", "year=int64")
    assert "none yet" in created
    assert "16 dimensions, σ diagonal, ranked by overlap" in created
    (tmp_path / "known.csv").write_text("id,year,place\na.png,1999,Oslo\ndeep/c.png,2020,Rome\n")
    added = printed("index", "add", index, photos, "--metadata", tmp_path / "known.csv")
    assert "added 3, replaced 0, skipped 0" in added
    again = record("index", "add", index, photos)
    assert (again["added"], again["present"], again["rows"]) == (0, 3, 3)
    assert record("index", "add", index, photos, "--replace")["replaced"] == 3
    (tmp_path / "captions.txt").write_text("a red bird\n\na blue bird\n")
    assert record("index", "add", index, tmp_path / "captions.txt")["added"] == 2
    assert record("index", "describe", index)["kinds"] == {"image": 3, "caption": 2}
    assert "deleted 1; " in printed("index", "delete", index, "photos/b.png")
    assert record("index", "delete", index, "--where", "kind = 'caption'")["deleted"] == 2
    assert record("index", "compact", index)["after"]["parts"] == 1
    assert record("index", "verify", index) == {"ok": True, "rows": 2, "faults": []}
    shown = printed("index", "describe", index)
    assert "2 images" in shown
    assert "year (int64), place (string)" in shown


def test_vectors_of_ones_own(tmp_path):
    index, generator = tmp_path / "index", np.random.default_rng(0)
    vectors = generator.normal(size=(20, 6)).astype(np.float32)
    np.save(tmp_path / "a.npy", vectors)
    np.save(tmp_path / "query.npy", vectors[3:4])
    printed("index", "create", index, "--dim", 6)
    assert record("index", "add", index, tmp_path / "a.npy")["added"] == 20
    found = record("search", index, tmp_path / "query.npy", "--k", 1)
    assert [hit["id"] for hit in found["hits"]] == ["a/3"]
    assert found["query"]["answerable"] is None
    assert "the nearest of 20" in printed("search", index, tmp_path / "query.npy")


def test_embeddings_as_a_table_and_from_it(model, photos, tmp_path):
    (tmp_path / "c.txt").write_text("a red bird\na blue bird\n")
    written = printed("embed", model, photos, tmp_path / "c.txt", "--out", tmp_path / "both.parquet")
    assert "5 embeddings of 16 dimensions" in written
    table = pq.read_table(tmp_path / "both.parquet")
    assert table.column_names == ["id", "kind", "path", "text", "mean", "log_sigma"]
    straight, by_file = tmp_path / "one", tmp_path / "two"
    for index, items in ((straight, (photos, tmp_path / "c.txt")), (by_file, (tmp_path / "both.parquet",))):
        printed("index", "create", index, "--model", model)
        assert record("index", "add", index, *items)["added"] == 5
    assert record("index", "describe", by_file)["kinds"] == {"image": 3, "caption": 2}
    assert record("search", straight, "a red bird") == record("search", by_file, "a red bird")
    assert record("index", "add", by_file, photos)["present"] == 3  # the very same items


def test_items_that_are_wrong_are_messages(index, photos):
    (photos / "empty.png").touch()
    lax = call("index", "add", index, photos)
    assert (lax.exit_code, "added 3" in lax.stdout) == (0, True)
    assert "image-empty: 1" in lax.output
    assert record("index", "add", index, photos)["problems"]["image-empty"]["count"] == 1
    assert "empty.png: the file has 0 bytes" in refused("index", "add", index, photos, "--strict")


def test_damage_is_told(index, photos):
    printed("index", "add", index, photos)
    (file,) = (index / "items.lance" / "data").iterdir()
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    assert refused("index", "verify", index)
    assert call("index", "verify", index, "--json").exit_code == 2


def test_files_of_one_name_are_two_items(index, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for n, folder in enumerate(("A", "B")):
        picture(tmp_path / folder / "1.png", colour=(200 * n, 90, 60))
        (tmp_path / folder / "c.txt").write_text(f"bird {folder}\n")
    arguments = ("A/1.png", "B/1.png", "A/c.txt", "./B/c.txt")
    assert record("index", "add", index, *arguments)["added"] == 4
    assert record("index", "add", index, *arguments)["present"] == 4
    found = record("search", index, "a red bird")["hits"]
    assert {hit["id"] for hit in found} == {"A/1.png", "B/1.png", "A/c.txt:1", "B/c.txt:1"}


def test_folders_of_one_name_are_refused_before_anything_is_written(index, tmp_path):
    for folder in ("A", "B"):
        picture(tmp_path / folder / "photos/1.png")
    both = (tmp_path / "A/photos", tmp_path / "B/photos")
    for options in ((), ("--replace",)):
        message = refused("index", "add", index, *both, *options)
        assert 'duplicate id "photos/1.png"' in message
        assert "Add a folder that holds both" in message
    assert record("index", "describe", index)["kinds"] == {"image": 0, "caption": 0}


@pytest.mark.parametrize(
    ("text", "columns"), [(",id,year\n0,a.png,1999\n1,b.png,2000\n", {"year": "int64"}), ("id\na.png\n", {})]
)
def test_row_numbers_of_pandas_and_files_with_ids_only_say_nothing(index, photos, tmp_path, text, columns):
    (tmp_path / "a.csv").write_text(text)
    assert record("index", "add", index, photos, "--metadata", tmp_path / "a.csv")["added"] == 3
    assert record("index", "describe", index)["columns"] == columns


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,path\na.png,x\n", '"path" cannot be a column of metadata'),
        ("id,text\na.png,x\n", '"text" cannot be a column of metadata'),
        ("id,vector\na.png,1\n", '"vector" cannot be a column of metadata'),
        ("id,a`b\na.png,1\n", '"a`b" cannot be a column of metadata'),
        ("id,year,year\na.png,1,2\n", '"year" is given twice'),
        ("id,id\na.png,b.png\n", "needs one column"),
        ("name,year\na,1\n", "needs one column"),
        ("id,year\nnobody,1\n", "none of the 1 ids"),
        ("id,year\na.png,1\na.png,2\n", '2 rows have the id "a.png"'),
    ],
)
def test_metadata_that_would_be_lost_are_refused(index, photos, tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    assert message in refused("index", "add", index, photos, "--metadata", tmp_path / "a.csv")
    printed("index", "add", index, photos)  # the index is as good as it was


def test_metadata_of_some_of_the_items(index, photos, tmp_path):
    picture(tmp_path / "z/007.png")
    (tmp_path / "a.jsonl").write_text('{"id": "photos/a.png", "year": 1999}\n')
    both = ("index", "add", index, photos, tmp_path / "z")
    assert record(*both, "--metadata", tmp_path / "a.jsonl")["added"] == 4
    (tmp_path / "b.csv").write_text("id,year\n007.png,2007\n")
    alone = ("index", "add", index, tmp_path / "z/007.png", "--metadata", tmp_path / "b.csv")
    assert record(*alone)["added"] == 1
    assert len(record("search", index, "a bird", "--where", "year IS NOT NULL")["hits"]) == 2
    hits = record("search", index, "a bird", "--where", "year = 1999")["hits"]
    assert [hit["metadata"] for hit in hits] == [{"year": 1999}]


def test_embeddings_of_another_model_are_refused(index, photos, tmp_path):
    untrained(seed=1).save(tmp_path / "other")
    file = tmp_path / "other.parquet"
    printed("embed", tmp_path / "other", photos, "--out", file)
    assert "embedded by another model" in refused("index", "add", index, file)
    printed("index", "create", tmp_path / "any", "--dim", 16)
    assert record("index", "add", tmp_path / "any", file)["added"] == 3  # of no model: the user's


def test_what_cannot_be_embedded_is_said(model, photos, tmp_path):
    np.save(tmp_path / "q.npy", np.zeros((2, 16), np.float32))
    out = ("--out", tmp_path / "x.parquet")
    assert "is a vector already" in refused("embed", model, photos, tmp_path / "q.npy", *out)
    assert '"photos/a.png" is given twice' in refused("embed", model, photos, photos, *out)
    (tmp_path / "empty.png").touch()
    message = refused("embed", model, tmp_path / "empty.png", *out)
    assert "none of the 1 items can be used: image-empty: 1" in message
    assert "empty.png: the file has 0 bytes" in message
    assert not (tmp_path / "x.parquet").exists()
