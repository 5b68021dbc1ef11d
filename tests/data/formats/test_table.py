import csv
import itertools
import json
import pickle
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from pcme.data import find
from pcme.data.formats import rows
from pcme.data.formats.table import Table
from pcme.data.problems import Problems
from pcme.data.text_files import text_lines
from pcme.errors import ConfigError, DataError, FormatError
from tests.data.formats.reading import ids, load_as, outcomes, traced, wheres
from tests.helpers import picture

load = partial(load_as, Table)
every_kind = pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
ROWS = [
    {"image": "a.jpg", "caption": "a wren", "split": "train", "class": "wren", "labels": "x;y"},
    {"image": "a.jpg", "caption": "a small, brown bird", "split": "train", "class": "wren"},
    {"image": "b.jpg", "caption": 'a "blue"\njay', "split": "train", "class": "jay"},
    {"image": "c.jpg", "caption": "another wren", "split": "test", "class": "wren"},
]


def write(path, rows):
    """The rows as whatever kind of table the name asks for."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix == ".parquet":
        data = {name: [row.get(name) for row in rows] for name in columns}
        parquet.write_table(pa.table(data), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        with open(path, "w", newline="", encoding="utf-8") as file:
            dialect = "excel-tab" if path.suffix == ".tsv" else "excel"
            writer = csv.DictWriter(file, columns, dialect=dialect)
            writer.writeheader()
            writer.writerows(rows)
    return path


@every_kind
def test_every_kind_of_table_says_the_same(folder, suffix):
    write(folder / f"captions{suffix}", ROWS)
    assert Table(folder).splits == ("train", "test")
    dataset, problems = load(folder, "train")
    assert problems.counts == {}
    assert ids(dataset) == ["a.jpg", "b.jpg"]
    assert dataset.captions == ("a wren", "a small, brown bird", 'a "blue" jay')
    assert dataset.caption_image.tolist() == [0, 0, 1]
    assert dataset.classes.names == ("jay", "wren")
    assert dataset.classes.values.tolist() == [1, 0]
    assert dataset.labels.names == ("x", "y")
    assert dataset.labels.values.tolist() == [[True, True], [False, False]]
    assert dataset.metadata is None
    assert dataset.images.load(0).size == (24, 18)
    assert repr(dataset) == "CaptionDataset(table/train: 2 images, 3 captions)"


def test_the_file_itself_may_be_given_and_pickled(folder):
    write(folder / "one.csv", ROWS)
    write(folder / "two.csv", ROWS)
    table = pickle.loads(pickle.dumps(Table(folder / "two.csv")))
    assert table.load("test").captions == ("another wren",)
    assert pickle.loads(pickle.dumps(table.load("test").images)).id(0) == "c.jpg"


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_cell_may_hold_several_captions_and_labels(folder, suffix):
    rows = [
        {"image": "a.jpg", "captions": ["one", "two"], "labels": ["x, y"]},
        {"image": "b.jpg", "captions": ["three"], "labels": []},
    ]
    dataset, problems = load(write(folder / f"t{suffix}", rows))
    assert dataset.captions == ("one", "two", "three")
    assert dataset.labels.names == ("x, y",)
    assert problems.counts == {}


def test_hugging_faces_names_are_known_and_others_may_be_given(folder):
    write(folder / "metadata.csv", [{"file_name": "a.jpg", "text": "a wren", "image_id": 7, "caption_id": 8}])
    write(folder / "other.csv", ROWS)
    dataset, _ = load(folder)
    assert dataset.captions == ("a wren",)
    assert list(dataset.metadata) == [{"image_id": "7", "caption_id": "8"}]
    with pytest.raises(ConfigError, match='no split "train", it has all'):
        load(folder, "train")
    write(folder / "t.csv", [{"photo": "a.jpg", "words": "a wren", "caption": "no", "image": "-"}])
    dataset, _ = load(folder / "t.csv", image_column="photo", caption_column="words")
    assert dataset.captions == ("a wren",)
    assert list(dataset.metadata) == [{"caption": "no", "image": "-"}]


@every_kind
def test_a_missing_column_is_named_with_those_found_and_the_nearest(folder, suffix):
    write(folder / f"t{suffix}", [{"Images": "a.jpg", "caption": "x"}])
    with pytest.raises(FormatError, match=r'no column "image", it has Images, .* "Images"\?'):
        load(folder)
    with pytest.raises(FormatError, match='no column "caption"'):
        Table(write(folder / "u.csv", [{"image": "a", "blurb": "x"}])).splits  # noqa: B018


@pytest.mark.parametrize(
    ("name", "content", "error", "said"),
    [
        ("t.csv", b"image;caption\na.jpg;x\n", FormatError, "it has image;caption. Separate the cells by commas"),
        ("t.csv", b"image,caption,caption\na.jpg,x,y\n", FormatError, "two columns of one name"),
        ("t.csv", ", ".join(f"column {n}" for n in range(50_000)).encode(), FormatError, "column 9"),
        ("t.csv", "image,caption\na.jpg,x\n".encode("utf-16"), FormatError, "is UTF-16, .* Save it as UTF-8"),
        ("t.csv", b"image,caption", DataError, "lists no image, it has no rows"),
        ("t.tsv", b"image\tcaption", DataError, "lists no image, it has no rows"),
        *[
            (f"t{suffix}", content, DataError, f"t{suffix}: is empty")
            for suffix in (".csv", ".tsv", ".jsonl")
            for content in (b"", b"\n\n", b"\xef\xbb\xbf")
        ],
        *[
            ("t.parquet", content, FormatError, "t.parquet: not a Parquet file")
            for content in (b"", b"PAR1", b"no table at all" * 9)
        ],
    ],
    ids=itertools.count(),
)
def test_a_file_that_is_no_table_is_an_error_that_can_be_read(folder, name, content, error, said):
    (folder / name).write_bytes(content)
    with pytest.raises(error, match=said) as caught:
        load(folder)
    assert len(str(caught.value)) < 1_000


def test_the_first_row_of_an_image_gives_its_metadata_with_its_types(folder):
    rows = [
        {"image": "a.jpg", "caption": "x", "year": 2021, "tags": ["p"], "none": None},
        {"image": "a.jpg", "caption": "y", "year": 1999, "tags": [], "none": 1.5},
    ]
    texts = {"year": "2021", "tags": "['p']", "none": ""}
    for suffix, metadata in ((".jsonl", rows[0]), (".parquet", rows[0]), (".csv", texts)):
        (expected,) = load(write(folder / f"t{suffix}", rows))[0].metadata
        assert expected == {key: metadata[key] for key in ("year", "tags", "none")}


def test_rows_that_contradict_the_first_of_their_image_are_left_out(folder):
    rows = [
        {"image": "a.jpg", "caption": "one", "split": "train", "class": "wren"},
        {"image": "./a.jpg", "caption": "leak", "split": "test", "class": "wren"},
        {"image": "a.jpg", "caption": "two", "split": "train", "class": "jay"},
        {"image": "a.jpg", "caption": "three", "split": "train", "class": ""},
        {"image": "b.jpg", "caption": "four", "split": "", "class": "jay"},
        {"image": "c.jpg", "caption": "five", "split": "test", "class": ""},
        {"image": "c.jpg", "caption": "six", "split": "test", "class": 3},
    ]
    write(folder / "t.csv", rows)
    dataset, problems = load(folder, "train")
    assert dataset.captions == ("one", "three")
    assert wheres(problems, "row-malformed") == ["t.csv:3", "t.csv:4", "t.csv:6"]
    assert problems.kept("row-malformed")[0].detail == ('a.jpg is in split "train" already, and here in "test"')
    dataset, _ = load(folder, "test")
    assert dataset.captions == ("five", "six")
    assert dataset.classes.names == ("3",)


def test_captions_can_match_by_class(folder):
    classes = {"a.jpg": 1.0, "b.jpg": 1.0, "c.jpg": None}
    rows = [{"image": name, "caption": "x", "class": number} for name, number in classes.items()]
    dataset, problems = load(write(folder / "t.parquet", rows), match="class")
    assert dataset.multiplicity().tolist() == [2, 2]
    assert dataset.classes.names == ("1",)
    assert wheres(problems, "row-malformed") == ["c.jpg"]


def test_images_may_lie_in_a_folder_of_that_name_or_in_one_that_is_given(tmp_path):
    picture(tmp_path / "images" / "birds" / "a.jpg")
    write(tmp_path / "t.csv", [{"image": name, "caption": "x"} for name in ("no.jpg", "birds/a.jpg")])
    dataset, problems = load(tmp_path)
    assert dataset.images.path(0) == tmp_path / "images" / "birds" / "a.jpg"
    assert wheres(problems, "image-missing") == ["no.jpg"]
    far = tmp_path / "far"
    picture(far / "no.jpg")
    assert load(tmp_path, images=far)[0].images.path(0) == far / "no.jpg"
    with pytest.raises(DataError, match="image-missing: 2"):
        load(tmp_path, images=tmp_path)


def test_no_name_leads_outside_of_the_folder(tmp_path):
    folder = picture(tmp_path / "in" / "a.jpg").parent
    picture(tmp_path / "secret.jpg")
    (folder / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    names = ["x/../../secret.jpg", str(tmp_path / "secret.jpg"), "link.jpg", str(folder / "a.jpg")]
    write(folder / "t.csv", [{"image": name, "caption": name} for name in names])
    dataset, problems = load(folder)
    assert ids(dataset) == ["a.jpg"]
    assert problems.counts == {"image-outside": 3}
    assert "t.csv:2: not below" in problems.kept("image-outside")[0].detail


@pytest.mark.parametrize("folder_is_given", [True, False])
def test_an_ambiguous_folder_is_an_error_that_names_the_tables(folder, folder_is_given):
    with pytest.raises(FormatError, match=r"got no \.csv, \.tsv, \.jsonl, \.parquet file"):
        load(folder if folder_is_given else folder / "gone.csv")
    write(folder / "x.csv", ROWS)
    write(folder / "y.jsonl", ROWS)
    with pytest.raises(FormatError, match=r"got x\.csv, y\.jsonl"):
        find(folder).load("train")
    write(folder / "metadata.csv", ROWS)
    assert len(load(folder, "train")[0].captions) == 3
    write(folder / "captions.parquet", ROWS[3:])
    assert Table(folder).splits == ("test",)
    write(folder / "captions.csv", ROWS)
    with pytest.raises(FormatError, match=r"got captions\.csv, captions\.parquet"):
        load(folder)


HEADER = b"image,caption\n"
DAMAGED_CSV = [
    b"image,caption",
    b"a.jpg,fine",
    b"a.jpg",
    b"a.jpg,too,many",
    b'a.jpg,"badly "quoted" text"',
    b"a.jpg,a NUL\0 byte",
    b"a.jpg,a caf\xe9",
    b",no name",
    b'a.jpg,6" of wren',
    b"b.jpg,",
    b"b.jpg,the last",
]
DAMAGED_JSON = [
    b'{"image": "a.jpg", "caption": "fine"}',
    b'{"image": "a.jpg", "caption": "cut',
    b"",
    b"[1, 2]",
    b'{"image": "a.jpg", "caption": 3}',
    b'{"image": "a.jpg"}',
    b'{"caption": "no name"}',
    b'{"image": {"bytes": ""}, "caption": "no name"}',
    b'{"image": "nul\\u0000.jpg", "caption": "x"}',
    b"[" * 100_000,
    b'{"image": "b.jpg", "caption": "half \\ud800 a pair"}',
    b'{"image": "\\udcff.jpg", "caption": "x"}',
]
TABS = b'image\tcaption\na.jpg\t"Look!" said he\nb.jpg\t"open\nc.jpg\t"quoted"\n\t"x\n'
WINDOWS = '\ufeffimage, caption\r\na.jpg , a café\r\n\r\nb.jpg, "a, b"\r\n'.encode()
OPEN = b'a.jpg,"never closed\n'


@pytest.mark.parametrize(
    ("suffix", "content", "captions", "malformed", "others"),
    [
        (".csv", WINDOWS, ("a café", "a, b"), (), {}),
        (".tsv", TABS, ('"Look!" said he', '"open', "quoted"), (5,), {}),
        (".csv", HEADER + OPEN + b"b.jpg,a jay\n" * 3, ("a jay",) * 3, (2,), {}),
        (".csv", HEADER + OPEN + b"b.jpg,a jay\n" * 100_000, ("a jay",) * 100_000, (2,), {}),
        (".csv", HEADER + (OPEN + b"b.jpg,a jay\n") * 5_000, ("a jay",) * 5_000, range(2, 2002, 2), {}),
        (
            ".csv",
            b"\n".join(DAMAGED_CSV),
            ("fine", "a caf�", '6" of wren', "the last"),
            (3, 4, 5, 6, 8),
            {"caption-not-utf8": ["t.csv:7"], "caption-empty": ["b.jpg#0"]},
        ),
        (
            ".jsonl",
            b"\n".join(DAMAGED_JSON),
            ("fine", "half � a pair"),
            (2, 4, 5, 7, 8, 9, 10, 12),
            {"caption-empty": ["a.jpg#1"], "caption-not-utf8": ["b.jpg#0"]},
        ),
    ],
    ids=itertools.count(),
)
def test_damaged_rows_are_named_and_the_rest_goes_on(folder, suffix, content, captions, malformed, others):
    (folder / f"t{suffix}").write_bytes(content)
    dataset, problems = load(folder)
    assert dataset.captions == captions
    assert wheres(problems, "row-malformed") == [f"t{suffix}:{number}" for number in malformed]
    assert {kind: wheres(problems, kind) for kind in problems.counts if kind != "row-malformed"} == others


def test_an_open_quotation_mark_is_followed_only_so_far(folder, monkeypatch):
    read = []
    monkeypatch.setattr(rows, "text_lines", lambda *args: (read.append(line) or line for line in text_lines(*args)))
    monkeypatch.setattr(rows, "MAX_LINE", 1_000)
    (folder / "t.csv").write_bytes(HEADER + OPEN + b"b.jpg,a jay\n" * 2_000)
    assert next(rows.read_rows(folder / "t.csv", Problems()))[0] == "t.csv:3"
    assert len(read) < 100


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_caption_of_five_megabytes_is_cut_or_left_out_and_the_rest_goes_on(folder, quote):
    long = "word " * 1_000_000
    (folder / "t.csv").write_text(f"image,caption\na.jpg,{quote}{long}{quote}\nb.jpg,a jay\n")
    (dataset, problems), peak = traced(load, folder)
    assert dataset.captions[-1] == "a jay"
    assert len(dataset.captions) == (1 if quote else 2)
    assert problems.counts == ({"caption-too-long": 1, "row-malformed": 1} if quote else {"caption-too-long": 2})
    assert peak < 12 * 2**20


def test_a_damaged_group_of_parquet_rows_is_left_out(folder):
    names, path = ["a.jpg", "b.jpg", "c.jpg"], folder / "t.parquet"
    table = pa.table({"image": names, "caption": [f"{name} " * 9 for name in names]})
    parquet.write_table(table, path, row_group_size=1, compression="none", use_dictionary=False)
    start = parquet.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset
    raw = path.read_bytes()
    path.write_bytes(raw[:start] + b"\xff" * 16 + raw[start + 16 :])
    dataset, problems = load(folder)
    assert ids(dataset) == ["a.jpg", "c.jpg"]
    assert wheres(problems, "row-malformed") == ["t.parquet:2-2"]


def test_parquet_text_that_is_not_utf8_costs_its_row(folder):
    texts = pa.array([b"one", b"caf\xe9", b"three"], pa.binary()).view(pa.string())
    parquet.write_table(pa.table({"image": ["a.jpg", "b.jpg", "c.jpg"], "caption": texts}), folder / "t.parquet")
    dataset, problems = load(folder)
    assert dataset.captions == ("one", "three")
    assert wheres(problems, "row-malformed") == ["t.parquet:2"]


def test_parquet_columns_of_bytes_are_not_read(folder):
    path = folder / "t.parquet"
    parquet.write_table(pa.table({"image": ["a.jpg"], "caption": ["x"], "pixels": [b"123"]}), path)
    assert load(folder)[0].metadata is None
    parquet.write_table(parquet.read_table(path).slice(0, 0), path)
    with pytest.raises(DataError, match="lists no image, it has no rows"):
        load(folder)
    inside = pa.table({"image": [{"bytes": b"123", "path": "a.jpg"}], "caption": ["x"]})
    parquet.write_table(inside, path)
    with pytest.raises(FormatError, match='no column "image", it has caption'):
        load(folder)


@every_kind
def test_no_damage_to_the_bytes_is_a_defect_of_the_reader(folder, suffix):
    def damage(raw, generator):
        for place in generator.integers(0, len(raw), 8):
            raw[place] = generator.choice(np.frombuffer(b'\0\n\r"\t,;\xff\xc3{}[]\\x', np.uint8))
        return raw[: generator.integers(len(raw) // 2, len(raw) * 2)]

    path = write(folder / f"t{suffix}", ROWS * 20)
    assert len(outcomes(lambda: load(path, "train"), path, damage, 60)) > 1


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_memory_is_that_of_the_split_not_of_the_table(folder, suffix):
    other = {"image": "b.jpg", "caption": "a jay " * 40, "split": "train"}
    write(folder / f"t{suffix}", [other] * 20_000 + [ROWS[3]])
    load(folder, "test")  # imports and caches
    (dataset, _), peak = traced(load, folder, "test")
    assert dataset.captions == ("another wren",)
    assert peak < 2_000_000 < 20_000 * len(other["caption"])


@pytest.mark.parametrize("name", ["captions.csv", "birds.tsv", "metadata.jsonl", "x.parquet"])
def test_a_folder_with_a_table_is_found(folder, name):
    write(folder / name, ROWS)
    assert find(folder) == Table(folder)
    assert find(folder / name) == Table(folder / name)


def test_a_folder_with_some_other_table_is_not(folder):
    write(folder / "prices.csv", [{"item": "x", "price": 3}])
    (folder / "broken.parquet").write_bytes(b"")
    (folder / ".captions.csv").write_text("image,caption\n")
    assert not Table.recognises(folder)
    assert not Table.recognises(folder / "a.jpg")
    with pytest.raises(ConfigError, match=r"table: captions\.csv"):
        find(folder)
