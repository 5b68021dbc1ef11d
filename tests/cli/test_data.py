"""pcme data: what people and programs read of it, on a small folder with everything wrong in it."""

import pytest
from PIL import Image

from pcme.data import names
from tests.data.images.test_decoding import png_header
from tests.helpers import call, picture, printed, record, refused


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


BAD = (
    "image-missing", "image-empty", "image-truncated", "image-unreadable", "image-too-large",
    "image-wrong-extension", "caption-empty", "caption-too-long", "caption-not-utf8",
)  # fmt: skip


def test_list_names_every_dataset_and_its_layout():
    text, records = printed("data", "list"), record("data", "list")
    assert all(name in text for name in names())
    assert [each["name"] for each in records] == names()
    assert {"aviary", "cub", "coco", "flickr8k", "flickr30k", "table"} <= set(names())
    assert all(each["layout"] for each in records)


def test_check_of_a_sound_folder(good):
    text = printed("data", "check", good)
    assert "2 images, all decoded, 24 x 18 pixels" in text
    assert "4 captions, 2 an image" in text
    assert "no problems" in text
    (split,) = record("data", "check", good, "--split", "test")["splits"]
    assert (split["split"], split["images"]) == ("test", 1)


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_check_names_everything_that_is_wrong_and_goes_on(bad, workers):
    report = record("data", "check", bad, "--workers", workers)
    assert {kind: entry["count"] for kind, entry in report["problems"].items()} == dict.fromkeys(BAD, 1)
    (split,) = report["splits"]
    assert split["decoded"] == 5  # three good ones, the disguised one and the CMYK one
    named = report["problems"]["image-too-large"]["items"][0]
    assert (named["where"], "3600000000 pixels" in named["detail"]) == ("huge.png", True)


def test_check_in_words_names_them_too(bad):
    text = printed("data", "check", bad)
    assert all(f"{kind}: 1 (" in text for kind in BAD)
    assert "huge.png" in text
    assert "run without --strict" in refused("data", "check", bad, "--strict")


def test_preview_writes_a_sheet_of_every_split_or_refuses_its_file(good, tmp_path):
    out = tmp_path / "out" / "sheet.png"
    out.parent.mkdir()
    assert record("data", "preview", good, "--out", out)["splits"] == ["train", "test"]
    with Image.open(out) as sheet:
        assert sheet.format == "PNG"
        assert sheet.height > 400  # two bands
    for wrong, message in (("sheet.txt", "Use .png"), ("nowhere/sheet.png", "cannot be written")):
        assert message in refused("data", "preview", good, "--out", tmp_path / wrong)
        assert not (tmp_path / wrong).exists()


def test_preview_shows_what_it_cannot_decode(bad, tmp_path):
    done = call("data", "preview", bad, "--out", tmp_path / "sheet.jpg", "--images", "20")
    assert done.exit_code == 0
    assert "image-truncated: 1" in done.stderr
    assert "wrote" in done.stdout


def test_a_name_finds_its_folder_below_pcme_data(monkeypatch, good):
    monkeypatch.delenv("PCME_DATA", raising=False)
    assert "PCME_DATA is not set" in refused("data", "check", "cub")
    root = good.parent / "base"
    root.mkdir()
    good.rename(root / "table")
    monkeypatch.setenv("PCME_DATA", str(root))
    assert record("data", "check", "table")["dataset"] == "table"
