import gzip
import json
import os

import numpy as np
import pytest

from pcme.data.problems import Problems
from pcme.data.records import MAX_LABELS, Record, as_captions, as_labels, as_name, assemble
from pcme.data.sources import Files
from pcme.data.text_files import (
    MAX_CHARACTERS,
    MAX_LINE,
    MAX_WORDS,
    caption_text,
    inside,
    json_document,
    printable,
    text_lines,
)
from pcme.errors import ConfigError, DataError, FormatError
from tests.data.formats.reading import ids, traced, wheres
from tests.helpers import picture, unless_annotations_are_enforced


@pytest.fixture
def problems():
    return Problems()


def made(folder, records, problems=None, **options):
    noted = problems if problems is not None else Problems()
    return assemble("toy", "test", records, lambda names: Files(folder, names), noted, **options)


def test_records_become_a_split_in_the_order_given(folder):
    records = [Record("b.jpg", ["one", "two"], metadata={"by": "B"}), Record("a.jpg", ["three"])]
    dataset = made(folder, records)
    assert ids(dataset) == ["b.jpg", "a.jpg"]
    assert dataset.captions == ("one", "two", "three")
    assert dataset.caption_image.tolist() == [0, 0, 1]
    assert dataset.caption_ids == ("b.jpg#0", "b.jpg#1", "a.jpg#0")
    assert list(dataset.metadata) == [{"by": "B"}, {}]
    assert dataset.classes is dataset.labels is None


@pytest.mark.parametrize(
    ("name", "kind", "where"),
    [
        ("a.jpg", "duplicate-id", "a.jpg"),
        ("gone.jpg", "image-missing", "gone.jpg"),
        ("nul\0.jpg", "image-missing", "nul\0.jpg"),
        ("\udcff.jpg", "row-malformed", "?.jpg"),
        ("folder.jpg", "image-unreadable", "folder.jpg"),
        ("pipe.jpg", "image-unreadable", "pipe.jpg"),
        ("../in/b.jpg", "image-outside", "../in/b.jpg"),
    ],
)
def test_an_image_that_cannot_be_used_is_left_out_with_its_captions_and_never_opened(tmp_path, name, kind, where):
    folder = picture(tmp_path / "in" / "a.jpg").parent
    picture(folder / "b.jpg")
    (folder / "folder.jpg").mkdir()
    os.mkfifo(folder / "pipe.jpg")
    problems, records = Problems(), [Record("a.jpg", ["first"]), Record(name, ["second"])]
    assert made(folder, records, problems).captions == ("first",)
    assert (problems.counts, wheres(problems, kind)) == ({kind: 1}, [where])
    with pytest.raises(DataError, match=kind):
        made(folder, records, Problems(strict=True))


def test_empty_captions_are_left_out_and_the_ids_stay_with_their_captions(folder, problems):
    records = [Record("a.jpg", ["", "one", " \t", "two"], ["p", "q", "r", "s"])]
    records += [Record("b.jpg", ["", " "]), Record("c.jpg", [])]
    dataset = made(folder, records, problems)
    assert dataset.captions == ("one", "two")
    assert dataset.caption_ids == ("q", "s")
    assert problems.counts == {"image-without-captions": 2, "caption-empty": 4}


def test_surplus_captions_are_counted_after_the_empty_ones(folder, problems):
    records = [Record("a.jpg", ["", "1", "2", "3"]), Record("b.jpg", ["1", "2"])]
    assert made(folder, records, problems, captions_per_image=2).captions == ("1", "2", "1", "2")
    assert [p.detail for p in problems.kept("caption-surplus")] == ["3 captions, 2 kept"]


def test_nothing_usable_is_an_error_that_says_what_was_found(folder, problems):
    gone = [Record("gone.jpg", ["x"])]
    with pytest.raises(DataError, match=r"toy/test: nothing .* no records"):
        made(folder, [])
    with pytest.raises(DataError, match="image-missing: 1"):
        made(folder, gone)
    assert made(folder, gone, problems, need_images=False).captions == ("x",)
    assert not len(problems)


def test_images_outside_of_the_folder_are_left_out_even_where_none_is_needed(folder, problems):
    listed = [Record("../secret.jpg", ["x"]), Record("gone.jpg", ["y"])]
    assert made(folder, listed, problems, need_images=False).captions == ("y",)
    assert problems.counts == {"image-outside": 1}


def test_classes_are_numbered_by_name_and_to_match_by_them_needs_one(folder, problems):
    records = [Record("a.jpg", ["x"], class_name="wren"), Record("b.jpg", ["y"], class_name="jay")]
    classes = made(folder, records).classes
    assert classes.names == ("jay", "wren")
    assert classes.values.tolist() == [1, 0]
    records += [Record("c.jpg", ["z"])]
    assert made(folder, records).classes is None
    dataset = made(folder, records, problems, match="class")
    assert dataset.multiplicity().tolist() == [1, 1]
    assert wheres(problems, "row-malformed") == ["c.jpg"]
    with pytest.raises(DataError, match="captions match by class"):
        made(folder, records[2:], match="class")


def test_labels_are_a_row_of_truths_in_the_order_of_their_names(folder):
    labels = (["wing", "beak"], None, {"beak"})
    records = [Record(f"{name}.jpg", ["x"], labels=of) for name, of in zip("abc", labels, strict=True)]
    labels = made(folder, records).labels
    assert labels.names == ("beak", "wing")
    assert labels.values.tolist() == [[True, True], [False, False], [True, False]]
    labels = made(folder, records, label_names=["wing", "tail", "beak"]).labels
    assert labels.names == ("wing", "tail", "beak")
    assert labels.values.sum(0).tolist() == [1, 0, 2]


def test_labels_that_cannot_be_are_an_error(folder):
    with pytest.raises(DataError, match="got tail"):
        made(folder, [Record("a.jpg", ["x"], labels=iter(["tail"]))], label_names=["beak"])
    with pytest.raises(DataError, match="got 10,001"):
        made(folder, [Record("a.jpg", ["x"], labels=map(str, range(MAX_LABELS + 1)))])


def test_one_long_class_name_costs_one_long_class_name(folder):
    # In an array of text every name would be as long: three times 40 MB here.
    names = ["x" * 10_000_000, "b", "c"]
    records = [Record(f"{n}.jpg", ["y"], class_name=c) for n, c in zip("abc", names, strict=True)]
    dataset, peak = traced(made, folder, records)
    assert dataset.classes.values.tolist() == [2, 0, 1]
    assert peak < 5_000_000


@pytest.mark.parametrize(
    ("value", "text", "kind"),
    [
        ("word " * 10_000, " ".join(["word"] * MAX_WORDS), "caption-too-long"),
        ("word " * MAX_WORDS, " ".join(["word"] * MAX_WORDS), None),
        ("鳥" * 5_000, "鳥" * MAX_CHARACTERS, "caption-too-long"),
        ("鳥" * MAX_CHARACTERS, "鳥" * MAX_CHARACTERS, None),
        (json.loads(r'"a \ud83d wren \ud83d\ude00"'), "a � wren 😀", "caption-not-utf8"),  # no file could hold a half
    ],
)
def test_a_caption_is_cut_and_mended(problems, value, text, kind):
    assert caption_text(value, "x", problems) == text
    assert problems.counts == ({kind: 1} if kind else {})


def test_lines_end_as_files_end_them_and_are_named_by_number(tmp_path, problems):
    path = tmp_path / "x.txt"
    path.write_bytes(b"\xef\xbb\xbfone\xff\r\n\ntwo\nthree")
    lines = list(text_lines(path, problems))
    assert lines == [("x.txt:1", "one�"), ("x.txt:2", ""), ("x.txt:3", "two"), ("x.txt:4", "three")]
    assert str(problems.kept("caption-not-utf8")[0]) == "x.txt:1: byte 0xff at 3"
    assert next(text_lines(path, problems, name="sub/x.txt"))[0] == "sub/x.txt:1"


@pytest.mark.parametrize("letter", ["x", "é", "鳥", "😀"])
def test_a_line_of_five_megabytes_is_cut_between_letters_and_the_next_is_whole(tmp_path, problems, letter):
    """One of just the longest length is not cut."""
    path = tmp_path / "x.txt"
    path.write_bytes(("." + letter * 5_000_000 + "\n").encode() + b"x" * MAX_LINE)
    (_, long), following = text_lines(path, problems)
    assert 0 <= MAX_LINE - len(long.encode()) <= 8
    assert set(long) == {".", letter}
    assert following == ("x.txt:2", "x" * MAX_LINE)
    assert problems.counts == {"caption-too-long": 1}


def test_lines_of_bytes_that_are_no_text_at_all(tmp_path, problems):
    path = tmp_path / "x.txt"
    path.write_bytes(np.random.default_rng(0).bytes(3 * MAX_LINE) + b"\x80" * 2 * MAX_LINE)
    assert len(list(text_lines(path, problems))) > 1
    assert problems.counts["caption-not-utf8"] > 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.json", b'{"a": '),
        ("x.json", b"\xff\xfe\x00"),
        ("x.json", b"[" * 200_000),
        ("x.json.gz", b'{"a": 1}'),
        ("x.json.gz", gzip.compress(b'{"a": 1}' * 99)[:-12]),
        ("x.json.gz", gzip.compress(b"x")[:10] + b"\xff" * 20),
    ],
)
def test_a_json_document_may_be_packed_and_any_other_is_a_format_error(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b'{"a": 1}') if path.suffix == ".gz" else b'{"a": 1}')
    assert json_document(path) == {"a": 1}
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"x\.json.*: not JSON"):
        json_document(path)


def test_names_stay_inside_of_the_folder(tmp_path):
    root = tmp_path / "photos"
    (root / "sub").mkdir(parents=True)
    (tmp_path / "photos-secret").mkdir()
    (root / "out").symlink_to(tmp_path)
    (root / "loop").symlink_to(root / "loop")
    assert inside(root, "sub/../a.jpg") == "a.jpg"
    assert inside(root, str(root / "sub" / "a.jpg")) == "sub/a.jpg"
    for name in ("../a.jpg", "/etc/passwd", "../photos-secret/a.jpg", "out/a.jpg", "a\0.jpg", "\ud800.jpg"):
        assert inside(root, name) is None
    assert inside(root, "loop") == "loop"
    (tmp_path / "link").symlink_to(root)
    assert inside(tmp_path / "link", "a.jpg") == "a.jpg"


def test_cells_are_read_as_what_they_stand_for():
    assert as_captions("one") == ["one"]
    assert as_captions(["one", "two"]) == ["one", "two"]
    assert as_captions(None) == [""]
    assert as_captions(3) is as_captions(["one", 2]) is as_captions({"a": 1}) is None
    assert as_labels("a; b|c,,d") == {"a", "b", "c", "d"}
    assert as_labels(["a,b", 3]) == {"a,b", "3"}
    assert as_labels(None) == as_labels("") == as_labels([]) == set()
    assert as_name("caf\udce9") == printable("caf\udce9") == "caf?"
    assert [as_name(v) for v in (3, 3.0, 3.5, True, 0, "0")] == ["3", "3", "3.5", "True", "0", "0"]


@unless_annotations_are_enforced
def test_an_unknown_way_to_match_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match=r'match: .* got "clas"'):
        made(tmp_path, [], match="clas")
