"""pcme index and pcme embed: from nothing to an index, and a message for whatever goes wrong."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from pcme.cli import app
from tests.helpers import picture
from tests.index.worlds import untrained


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "run"
    untrained().save(folder)
    return folder


@pytest.fixture
def photos(tmp_path):
    for n, name in enumerate(("a.png", "b.png", "deep/c.png")):
        picture(tmp_path / "photos" / name, colour=(60 * n, 90, 200))
    return tmp_path / "photos"


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments])


def done(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def record(*arguments):
    return json.loads(done(*arguments, "--json").stdout)


def test_from_nothing_to_an_index_and_back(model, photos, tmp_path):
    index = tmp_path / "index"
    made = done("index", "create", index, "--model", model, "--column", "year=int64")
    assert "none yet" in made.stdout
    assert "16 dimensions, σ diagonal, ranked by overlap" in made.stdout
    (tmp_path / "known.csv").write_text("id,year,place\na.png,1999,Oslo\ndeep/c.png,2020,Rome\n")
    added = done("index", "add", index, photos, "--metadata", tmp_path / "known.csv")
    assert "added 3, replaced 0, skipped 0" in added.stdout
    again = record("index", "add", index, photos)
    assert (again["added"], again["present"], again["rows"]) == (0, 3, 3)
    assert record("index", "add", index, photos, "--replace")["replaced"] == 3
    (tmp_path / "captions.txt").write_text("a red bird\n\na blue bird\n")
    assert record("index", "add", index, tmp_path / "captions.txt")["added"] == 2
    assert record("index", "describe", index)["kinds"] == {"image": 3, "caption": 2}
    assert "deleted 1; " in done("index", "delete", index, "photos/b.png").stdout
    assert record("index", "delete", index, "--where", "kind = 'caption'")["deleted"] == 2
    assert record("index", "compact", index)["after"]["parts"] == 1
    assert record("index", "verify", index) == {"ok": True, "rows": 2, "faults": []}
    shown = done("index", "describe", index).stdout
    assert "2 images" in shown
    assert "year (int64), place (string)" in shown


def test_metadata_are_found_by_name(model, photos, tmp_path):
    index = tmp_path / "index"
    done("index", "create", index, "--model", model)
    (tmp_path / "known.jsonl").write_text('{"id": "photos/a.png", "year": 1999}\n')
    done("index", "add", index, photos, "--metadata", tmp_path / "known.jsonl")
    hits = record("search", index, "a bird", "--where", "year = 1999")["hits"]
    assert [hit["metadata"] for hit in hits] == [{"year": 1999}]


def test_a_dataset_by_name(model, tmp_path):
    index = tmp_path / "index"
    done("index", "create", index, "--model", model)
    result = run("index", "add", index, "aviary", "--split", "nonsense")
    assert result.exit_code == 2
    assert 'no split "nonsense"' in result.output


def test_vectors_of_ones_own(tmp_path):
    index, generator = tmp_path / "index", np.random.default_rng(0)
    vectors = generator.normal(size=(20, 6)).astype(np.float32)
    np.save(tmp_path / "a.npy", vectors)
    np.save(tmp_path / "query.npy", vectors[3:4])
    done("index", "create", index, "--dim", 6)
    assert record("index", "add", index, tmp_path / "a.npy")["added"] == 20
    found = record("search", index, tmp_path / "query.npy", "--k", 1)
    assert [hit["id"] for hit in found["hits"]] == ["a/3"]
    assert found["query"]["answerable"] is None
    shown = done("search", index, tmp_path / "query.npy").stdout
    assert "the nearest of 20" in shown


def test_embeddings_as_a_table_and_from_it(model, photos, tmp_path):
    written = done("embed", model, photos, "--out", tmp_path / "photos.parquet")
    assert "3 embeddings of 16 dimensions" in written.stdout
    table = pq.read_table(tmp_path / "photos.parquet")
    assert table.column_names == ["id", "kind", "path", "text", "mean", "log_sigma"]
    straight, by_file = tmp_path / "one", tmp_path / "two"
    for index, items in ((straight, photos), (by_file, tmp_path / "photos.parquet")):
        done("index", "create", index, "--model", model)
        done("index", "add", index, items)
    found = [record("search", index, "a red bird") for index in (straight, by_file)]
    assert found[0] == found[1]


def test_tuning_says_when_there_is_nothing_to_tune(model, photos, tmp_path):
    index = tmp_path / "index"
    done("index", "create", index, "--model", model)
    done("index", "add", index, photos)
    result = run("index", "tune", index)
    assert result.exit_code == 2
    assert "got 3 items" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "create", "{tmp}/index"], "model: missing"),
        (["index", "create", "{tmp}/new", "--model", "{tmp}"], "not a model"),
        (["index", "create", "{tmp}/new", "--dim", "4", "--score", "mena"], "unknown score"),
        (["index", "create", "{tmp}/new", "--dim", "4", "--column", "year"], "--column: must be name=typ"),
        (["index", "create", "{tmp}/new", "--dim", "4", "--column", "y=whole"], 'got "whole"'),
        (
            ["index", "create", "{tmp}/new", "--dim", "4", "--column", "y=int64", "--column", "y=string"],
            '--column: "y" is given twice',
        ),
        (["index", "create", "{tmp}/new", "--dim", "4", "--column", "`=int64"], '"`" cannot be'),
        (["index", "add", "{tmp}/nowhere", "x"], "not an index"),
        (["index", "verify", "{tmp}/nowhere"], "not an index"),
        (["index", "delete", "{tmp}/nowhere"], "not an index"),
        (["search", "{tmp}/nowhere", "a bird"], "not an index"),
        (["embed", "{tmp}/nowhere", "x", "--out", "a.parquet"], "unknown dataset"),
    ],
)
def test_what_is_wrong_is_a_message(tmp_path, arguments, message):
    result = run(*(one.format(tmp=tmp_path) for one in arguments))
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())


def test_items_that_are_wrong_are_messages(model, photos, tmp_path):
    index = tmp_path / "index"
    done("index", "create", index, "--model", model)
    (photos / "empty.png").touch()
    lax = run("index", "add", index, photos)
    assert (lax.exit_code, "added 3" in lax.stdout) == (0, True)
    assert "image-empty: 1" in lax.output
    strict = run("index", "add", index, photos, "--strict")
    assert strict.exit_code == 2
    assert "empty.png: the file has 0 bytes" in strict.output
    (tmp_path / "odd.csv").write_text("name,year\na,1\n")
    (tmp_path / "other.csv").write_text("id,year\nnobody,1\n")
    for file, message in (("odd.csv", "needs one column"), ("other.csv", "none of the 1 ids")):
        result = run("index", "add", index, photos, "--metadata", tmp_path / file)
        assert result.exit_code == 2
        assert message in result.output


def test_damage_is_told(model, photos, tmp_path):
    index = tmp_path / "index"
    done("index", "create", index, "--model", model)
    done("index", "add", index, photos)
    (file,) = (index / "items.lance" / "data").iterdir()
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    result = run("index", "verify", index)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert run("index", "verify", index, "--json").exit_code == 2


def refused(*arguments):
    """The message of a command that fails as it should."""
    result = run(*arguments)
    assert (result.exit_code, "Traceback" in result.output) == (2, False), result.output
    return " ".join(result.output.split())


@pytest.fixture
def index(model, tmp_path):
    done("index", "create", tmp_path / "index", "--model", model)
    return tmp_path / "index"


@pytest.mark.parametrize("option", ["--dim=16", "--score=csd", "--score=mean", "--spread=none"])
def test_a_model_decides_what_an_index_is(model, tmp_path, option):
    name = option.strip("-").partition("=")[0]
    message = refused("index", "create", tmp_path / "new", "--model", model, option)
    assert f"{name}: decided by the model" in message
    assert not (tmp_path / "new").exists()


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


def test_row_numbers_of_pandas_are_left_out(index, photos, tmp_path):
    (tmp_path / "a.csv").write_text(",id,year\n0,a.png,1999\n1,b.png,2000\n")
    done("index", "add", index, photos, "--metadata", tmp_path / "a.csv")
    assert record("index", "describe", index)["columns"] == {"year": "int64"}
    assert len(record("search", index, "a bird")["hits"]) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,path\na.png,x\n", '"path" cannot be a column of metadata'),
        ("id,text\na.png,x\n", '"text" cannot be a column of metadata'),
        ("id,vector\na.png,1\n", '"vector" cannot be a column of metadata'),
        ("id,a`b\na.png,1\n", '"a`b" cannot be a column of metadata'),
        ("id,year,year\na.png,1,2\n", '"year" is given twice'),
        ("id,id\na.png,b.png\n", "needs one column"),
        ("id,year\na.png,1\na.png,2\n", '2 rows have the id "a.png"'),
    ],
)
def test_metadata_that_would_be_lost_are_refused(index, photos, tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    assert message in refused("index", "add", index, photos, "--metadata", tmp_path / "a.csv")
    done("index", "add", index, photos)  # the index is as good as it was


def test_a_file_with_ids_only_says_nothing(index, photos, tmp_path):
    (tmp_path / "a.csv").write_text("id\na.png\n")
    assert record("index", "add", index, photos, "--metadata", tmp_path / "a.csv")["added"] == 3


def test_metadata_of_some_of_the_items(index, photos, tmp_path):
    picture(tmp_path / "z/007.png")
    (tmp_path / "a.csv").write_text("id,year\na.png,1999\n")
    both = ("index", "add", index, photos, tmp_path / "z")
    assert record(*both, "--metadata", tmp_path / "a.csv")["added"] == 4
    (tmp_path / "b.csv").write_text("id,year\n007.png,2007\n")
    alone = ("index", "add", index, tmp_path / "z/007.png", "--metadata", tmp_path / "b.csv")
    assert record(*alone)["added"] == 1
    assert len(record("search", index, "a bird", "--where", "year IS NOT NULL")["hits"]) == 2


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["{photos}", "--split", "nope"], 'has no split "nope", it is a folder of images'),
        (["{photos}", "--kind", "caption"], "has no captions, it is a folder of images"),
        ([""], "items: must be a path"),
        (["{photos}", "{photos}/../nowhere"], "unknown dataset"),
    ],
)
def test_items_that_cannot_be_meant_are_refused(index, photos, items, message):
    given = [one.format(photos=photos) for one in items]
    assert message in refused("index", "add", index, *given)
    assert record("index", "describe", index)["kinds"] == {"image": 0, "caption": 0}


def test_both_kinds_are_embedded_and_read_back(model, index, photos, tmp_path):
    (tmp_path / "c.txt").write_text("a red bird\na blue bird\n")
    file = tmp_path / "both.parquet"
    done("embed", model, photos, tmp_path / "c.txt", "--out", file)
    assert record("index", "add", index, file)["added"] == 5
    assert record("index", "describe", index)["kinds"] == {"image": 3, "caption": 2}
    assert record("index", "add", index, photos)["present"] == 3  # the very same items


def test_embeddings_of_another_model_are_refused(index, photos, tmp_path):
    untrained(seed=1).save(tmp_path / "other")
    file = tmp_path / "other.parquet"
    done("embed", tmp_path / "other", photos, "--out", file)
    assert "embedded by another model" in refused("index", "add", index, file)
    done("index", "create", tmp_path / "any", "--dim", 16)
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
