"""pcme data: what people and programs read of it, on a small folder with everything wrong in it."""

import json

import pytest
from PIL import Image
from typer.testing import CliRunner

from pcme.cli import app
from tests.data.images.test_decoding import png_header
from tests.helpers import picture


def run(*args: str):
    plain = CliRunner(env={"FORCE_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": "100"})
    return plain.invoke(app, ["data", *map(str, args)])


def write_rows(root, rows):
    lines = ["image,caption,split", *(",".join(row) for row in rows)]
    (root / "captions.csv").write_bytes("\n".join(lines).encode("latin-1"))


@pytest.fixture
def good(tmp_path):
    rows = []
    for number, split in enumerate(["train", "train", "test"]):
        picture(tmp_path / f"{number}.jpg")
        rows += [(f"{number}.jpg", f"a wren on branch {number}", split)]
        rows += [(f"{number}.jpg", "a bird", split)]
    write_rows(tmp_path, rows)
    return tmp_path


@pytest.fixture
def bad(tmp_path):
    """Three good images among everything that can be wrong with an image or a caption."""
    for number in range(3):
        picture(tmp_path / f"good{number}.jpg")
    whole = picture(tmp_path / "whole.jpg", size=(300, 300)).read_bytes()
    (tmp_path / "truncated.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.jpg").write_bytes(b"")
    (tmp_path / "text.jpg").write_text("not a picture")
    (tmp_path / "huge.png").write_bytes(png_header(60_000, 60_000))
    picture(tmp_path / "disguised.jpg", format="PNG")
    Image.new("CMYK", (9, 9)).save(tmp_path / "cmyk.jpg")
    files = ["truncated.jpg", "empty.jpg", "text.jpg", "huge.png", "disguised.jpg", "cmyk.jpg"]
    rows = [(name, "some bird", "test") for name in [*files, "missing.jpg"]]
    rows += [(f"good{number}.jpg", "a bird", "test") for number in range(3)]
    rows += [("good0.jpg", "  ", "test"), ("good1.jpg", "caf\xe9", "test")]
    rows += [("good2.jpg", " ".join(["word"] * 10_000), "test")]
    write_rows(tmp_path, rows)
    return tmp_path


BAD = {
    "image-missing": 1,
    "image-empty": 1,
    "image-truncated": 1,
    "image-unreadable": 1,
    "image-too-large": 1,
    "image-wrong-extension": 1,
    "caption-empty": 1,
    "caption-too-long": 1,
    "caption-not-utf8": 1,
}


def test_list_names_every_dataset_and_its_layout():
    from pcme.data import names

    text = run("list").stdout
    assert all(name in text for name in names())
    records = json.loads(run("list", "--json").stdout)
    assert [record["name"] for record in records] == names()
    assert {"aviary", "cub", "coco", "flickr8k", "flickr30k", "table"} <= set(names())
    assert all(record["layout"] for record in records)


def test_check_of_a_sound_folder(good):
    done = run("check", good)
    assert done.exit_code == 0, done.stderr
    assert "2 images, all decoded, 24 x 18 pixels" in done.stdout
    assert "4 captions, 2 an image" in done.stdout
    assert "no problems" in done.stdout


def test_check_names_everything_that_is_wrong_and_goes_on(bad):
    done = run("check", bad, "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    counts = {kind: entry["count"] for kind, entry in report["problems"].items()}
    assert counts == BAD
    (split,) = report["splits"]
    assert split["decoded"] == 5  # three good ones, the disguised one and the CMYK one
    named = report["problems"]["image-too-large"]["items"][0]
    assert (named["where"], "3600000000 pixels" in named["detail"]) == ("huge.png", True)


def test_check_in_words_names_them_too(bad):
    text = run("check", bad).stdout
    for kind in BAD:
        assert f"{kind}: 1 (" in text
    assert "huge.png" in text


def test_strict_stops_at_the_first(bad):
    done = run("check", bad, "--strict")
    assert done.exit_code == 2
    assert "run without --strict" in done.stderr


def test_check_of_one_split(good):
    (split,) = json.loads(run("check", good, "--split", "test", "--json").stdout)["splits"]
    assert (split["split"], split["images"]) == ("test", 1)
    done = run("check", good, "--split", "dev")
    assert (done.exit_code, 'no split "dev"' in done.stderr) == (2, True)


@pytest.mark.parametrize("workers", ["0", "3"])
def test_the_number_of_workers_changes_nothing(bad, workers):
    report = json.loads(run("check", bad, "--workers", workers, "--json").stdout)
    assert {kind: entry["count"] for kind, entry in report["problems"].items()} == BAD


def test_preview_writes_a_sheet_of_every_split(good, tmp_path):
    out = tmp_path / "out" / "sheet.png"
    out.parent.mkdir()
    done = run("preview", good, "--out", out, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["splits"] == ["train", "test"]
    with Image.open(out) as sheet:
        assert sheet.format == "PNG"
        assert sheet.height > 400  # two bands


def test_preview_shows_what_it_cannot_decode(bad, tmp_path):
    done = run("preview", bad, "--out", tmp_path / "sheet.jpg", "--images", "20")
    assert done.exit_code == 0
    assert "image-truncated: 1" in done.stderr
    assert "wrote" in done.stdout


def test_preview_refuses_a_name_that_is_no_picture(good, tmp_path):
    done = run("preview", good, "--out", tmp_path / "sheet.txt")
    assert (done.exit_code, "Use .png" in done.stderr) == (2, True)
    assert not (tmp_path / "sheet.txt").exists()


def test_preview_into_a_folder_that_is_not_there(good, tmp_path):
    done = run("preview", good, "--out", tmp_path / "nowhere" / "sheet.png")
    assert (done.exit_code, "cannot be written" in done.stderr) == (2, True)


def test_an_unknown_name_is_told_the_nearest():
    done = run("check", "aviarry")
    assert done.exit_code == 2
    assert 'Did you mean "aviary"?' in done.stderr


def test_an_unknown_layout_is_told_the_known_ones(tmp_path):
    done = run("check", tmp_path)
    assert done.exit_code == 2
    assert "text_c10" in done.stderr


def test_a_name_that_needs_files_says_where_it_looked(monkeypatch, tmp_path):
    monkeypatch.setenv("PCME_DATA", str(tmp_path))
    assert "has no folder cub" in run("check", "cub").stderr
    monkeypatch.delenv("PCME_DATA")
    assert "PCME_DATA is not set" in run("check", "cub").stderr


def test_a_name_finds_its_folder_below_pcme_data(monkeypatch, good):
    root = good.parent / "base"
    root.mkdir()
    good.rename(root / "table")
    monkeypatch.setenv("PCME_DATA", str(root))
    assert json.loads(run("check", "table", "--json").stdout)["dataset"] == "table"
