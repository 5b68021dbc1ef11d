import csv
import json
import pickle
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from pcme.data import find
from pcme.data.formats import rows
from pcme.data.formats.table import Table
from pcme.data.problems import Problems
from pcme.data.text_files import text_lines
from pcme.errors import ConfigError, DataError, FormatError, PcmeError

ROWS = [
    {"image": "a.jpg", "caption": "a wren", "split": "train", "class": "wren", "labels": "x;y"},
    {"image": "a.jpg", "caption": "a small, brown bird", "split": "train", "class": "wren"},
    {"image": "b.jpg", "caption": 'a "blue"\njay', "split": "train", "class": "jay"},
    {"image": "c.jpg", "caption": "another wren", "split": "test", "class": "wren"},
]


@pytest.fixture
def folder(tmp_path):
    images(tmp_path, "a.jpg", "b.jpg", "c.jpg")
    return tmp_path


def images(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 3), (200, 10, 10)).save(folder / name)


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


def load(path, split="all", **fields):
    problems = Problems()
    return Table(path, **fields).load(split, problems), problems


def wheres(problems, kind):
    return [problem.where for problem in problems.kept(kind)]


def ids(dataset):
    return [dataset.images.id(index) for index in range(len(dataset.images))]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
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
    assert dataset.images.load(0).size == (4, 3)
    assert repr(dataset) == "CaptionDataset(table/train: 2 images, 3 captions)"


def test_the_file_itself_may_be_given_and_pickled(folder):
    write(folder / "one.csv", ROWS)
    write(folder / "two.csv", ROWS)
    table = pickle.loads(pickle.dumps(Table(folder / "two.csv")))
    assert table.load("test").captions == ("another wren",)
    assert pickle.loads(pickle.dumps(table.load("test").images)).id(0) == "c.jpg"


def test_without_a_split_column_all_is_the_split(folder):
    write(folder / "captions.csv", [{"image": "a.jpg", "caption": "a wren"}])
    assert Table(folder).splits == ("all",)
    assert load(folder)[0].captions == ("a wren",)
    with pytest.raises(ConfigError, match='no split "train", it has all'):
        load(folder, "train")


def test_a_split_that_is_not_there_is_an_error_that_names_those_that_are(folder):
    write(folder / "captions.csv", ROWS)
    with pytest.raises(ConfigError, match='no split "val", it has train, test'):
        load(folder, "val")


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_cell_may_hold_several_captions_and_labels(folder, suffix):
    rows = [
        {"image": "a.jpg", "captions": ["one", "two"], "labels": ["x, y"]},
        {"image": "b.jpg", "captions": ["three"], "labels": []},
    ]
    write(folder / f"t{suffix}", rows)
    dataset, problems = load(folder)
    assert dataset.captions == ("one", "two", "three")
    assert dataset.labels.names == ("x, y",)
    assert problems.counts == {}


def test_hugging_faces_names_are_known(folder):
    write(folder / "metadata.csv", [{"file_name": "a.jpg", "text": "a wren", "by": "me"}])
    write(folder / "other.csv", ROWS)
    dataset, _ = load(folder)
    assert dataset.captions == ("a wren",)
    assert list(dataset.metadata) == [{"by": "me"}]


def test_columns_may_be_named(folder):
    write(folder / "t.csv", [{"photo": "a.jpg", "words": "a wren", "caption": "no", "image": "-"}])
    dataset, _ = load(folder, image_column="photo", caption_column="words")
    assert dataset.captions == ("a wren",)
    assert list(dataset.metadata) == [{"caption": "no", "image": "-"}]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_a_missing_column_is_named_with_those_found_and_the_nearest(folder, suffix):
    write(folder / f"t{suffix}", [{"Images": "a.jpg", "caption": "x"}])
    with pytest.raises(FormatError, match=r'no column "image", it has Images, .* "Images"\?'):
        load(folder)
    with pytest.raises(FormatError, match='no column "caption"'):
        Table(write(folder / "u.csv", [{"image": "a", "blurb": "x"}])).splits  # noqa: B018


def test_cells_separated_by_something_else_are_an_error_that_says_so(folder):
    (folder / "t.csv").write_text("image;caption\na.jpg;x\n")
    with pytest.raises(FormatError, match=r"it has image;caption. Separate the cells by commas"):
        load(folder)


def test_an_error_names_no_more_columns_than_can_be_read(folder):
    (folder / "t.csv").write_text(", ".join(f"column {n}" for n in range(50_000)))
    with pytest.raises(FormatError) as caught:
        load(folder)
    assert len(str(caught.value)) < 1_000


def test_two_columns_of_one_name_are_an_error(folder):
    (folder / "t.csv").write_text("image,caption,caption\na.jpg,x,y\n")
    with pytest.raises(FormatError, match="two columns of one name"):
        load(folder)


def test_the_first_row_of_an_image_gives_its_metadata_with_its_types(folder):
    rows = [
        {"image": "a.jpg", "caption": "x", "year": 2021, "tags": ["p"], "none": None},
        {"image": "a.jpg", "caption": "y", "year": 1999, "tags": [], "none": 1.5},
    ]
    write(folder / "t.jsonl", rows)
    write(folder / "t.parquet", rows)
    write(folder / "t.csv", rows)
    expected = {"year": 2021, "tags": ["p"], "none": None}
    assert list(load(folder / "t.jsonl")[0].metadata) == [expected]
    assert list(load(folder / "t.parquet")[0].metadata) == [expected]
    texts = {"year": "2021", "tags": "['p']", "none": ""}
    assert list(load(folder / "t.csv")[0].metadata) == [texts]


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
    rows = [
        {"image": "a.jpg", "caption": "x", "class": 1.0},
        {"image": "b.jpg", "caption": "y", "class": 1.0},
        {"image": "c.jpg", "caption": "z", "class": None},
    ]
    write(folder / "t.parquet", rows)
    dataset, problems = load(folder, match="class")
    assert dataset.multiplicity().tolist() == [2, 2]
    assert dataset.classes.names == ("1",)
    assert wheres(problems, "row-malformed") == ["c.jpg"]


def test_images_may_lie_in_a_folder_of_that_name(tmp_path):
    images(tmp_path / "images", "birds/a.jpg")
    write(tmp_path / "t.csv", [{"image": name, "caption": "x"} for name in ("no", "birds/a.jpg")])
    dataset, problems = load(tmp_path)
    assert dataset.images.path(0) == tmp_path / "images" / "birds" / "a.jpg"
    assert wheres(problems, "image-missing") == ["no"]


def test_images_may_lie_anywhere_that_is_said(tmp_path):
    images(tmp_path / "far", "a.jpg")
    (tmp_path / "near").mkdir()
    write(tmp_path / "near" / "t.csv", [{"image": "a.jpg", "caption": "x"}])
    dataset, _ = load(tmp_path / "near", images=tmp_path / "far")
    assert dataset.images.load(0).size == (4, 3)
    with pytest.raises(DataError, match="image-missing: 1"):
        load(tmp_path / "near")


def test_no_name_leads_outside_of_the_folder(tmp_path):
    images(tmp_path, "secret.jpg", "in/a.jpg")
    folder = tmp_path / "in"
    (folder / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    names = ["x/../../secret.jpg", str(tmp_path / "secret.jpg"), "link.jpg"]
    names += [str(folder / "a.jpg")]
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
        load(folder)
    write(folder / "metadata.csv", ROWS)
    assert len(load(folder, "train")[0].captions) == 3
    write(folder / "captions.parquet", ROWS[3:])
    assert Table(folder).splits == ("test",)
    write(folder / "captions.csv", ROWS)
    with pytest.raises(FormatError, match=r"got captions\.csv, captions\.parquet"):
        load(folder)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_table_is_an_error(folder, suffix, content):
    (folder / f"t{suffix}").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=r"t\..* is empty"):
        load(folder)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_table_of_a_header_only_is_an_error(folder, suffix):
    path = folder / f"t{suffix}"
    if suffix == ".parquet":
        parquet.write_table(pa.table({"image": pa.array([], "str"), "caption": []}), path)
    else:
        path.write_text("\t".join(["image", "caption"]).replace("\t", ",\t"[suffix == ".tsv"]))
    with pytest.raises(DataError, match="lists no image, it has no rows"):
        load(folder)


def test_a_byte_order_mark_and_windows_lines_are_no_part_of_the_text(folder):
    path = folder / "t.csv"
    path.write_bytes('\ufeffimage, caption\r\na.jpg , a café\r\n\r\nb.jpg, "a, b"\r\n'.encode())
    dataset, problems = load(folder)
    assert dataset.captions == ("a café", "a, b")
    assert problems.counts == {}


def test_utf16_is_an_error_that_says_so(folder):
    (folder / "t.csv").write_bytes("image,caption\na.jpg,x\n".encode("utf-16"))
    with pytest.raises(FormatError, match=r"is UTF-16, .* Save it as UTF-8"):
        load(folder)


def test_damaged_rows_are_named_and_the_rest_goes_on(folder):
    lines = [
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
    (folder / "t.csv").write_bytes(b"\n".join(lines))
    dataset, problems = load(folder)
    assert dataset.captions == ("fine", "a caf�", '6" of wren', "the last")
    assert wheres(problems, "row-malformed") == [f"t.csv:{n}" for n in (3, 4, 5, 6, 8)]
    assert wheres(problems, "caption-not-utf8") == ["t.csv:7"]
    assert wheres(problems, "caption-empty") == ["b.jpg#0"]


def test_strict_problems_stop_at_the_first_damaged_row(folder):
    (folder / "t.csv").write_text("image,caption\na.jpg,fine\na.jpg\na.jpg,fine\n")
    with pytest.raises(DataError, match=r"t\.csv:3: 1 cells, 2 columns"):
        Table(folder).load("all", Problems(strict=True))


@pytest.mark.parametrize("rows_after", [3, 100_000])
def test_an_open_quotation_mark_costs_one_row(folder, rows_after):
    text = 'image,caption\na.jpg,"never closed\n' + "b.jpg,a jay\n" * rows_after
    (folder / "t.csv").write_text(text)
    dataset, problems = load(folder)
    assert len(dataset.captions) == rows_after
    assert wheres(problems, "row-malformed") == ["t.csv:2"]


def test_an_open_quotation_mark_is_followed_only_so_far(folder, monkeypatch):
    read = []

    def counted(path, problems):
        for line in text_lines(path, problems):
            read.append(line)
            yield line

    monkeypatch.setattr(rows, "text_lines", counted)
    monkeypatch.setattr(rows, "MAX_LINE", 1_000)
    (folder / "t.csv").write_text('image,caption\na.jpg,"never closed\n' + "b.jpg,a jay\n" * 2_000)
    cells = rows._csv_cells(folder / "t.csv", Problems())
    assert [next(cells)[0], next(cells)[0]] == ["t.csv:1", "t.csv:3"]
    assert len(read) < 100


def test_many_open_quotation_marks_are_read_in_good_time(folder):
    text = "image,caption\n" + 'a.jpg,"never closed\nb.jpg,a jay\n' * 5_000
    (folder / "t.csv").write_text(text)
    dataset, problems = load(folder)
    assert dataset.captions == ("a jay",) * 5_000
    assert problems.counts == {"row-malformed": 5_000}


def test_tabs_without_quoting_may_hold_quotation_marks(folder):
    text = 'image\tcaption\na.jpg\t"Look!" said he\nb.jpg\t"open\nc.jpg\t"quoted"\n\t"x\n'
    (folder / "t.tsv").write_text(text)
    dataset, problems = load(folder)
    assert dataset.captions == ('"Look!" said he', '"open', "quoted")
    assert wheres(problems, "row-malformed") == ["t.tsv:5"]


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_caption_of_five_megabytes_is_cut_or_left_out_and_the_rest_goes_on(folder, quote):
    long = "word " * 1_000_000
    (folder / "t.csv").write_text(f"image,caption\na.jpg,{quote}{long}{quote}\nb.jpg,a jay\n")
    tracemalloc.start()
    dataset, problems = load(folder)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert dataset.captions[-1] == "a jay"
    assert len(dataset.captions) == (1 if quote else 2)
    assert problems.counts["caption-too-long"] == (1 if quote else 2)
    assert problems.counts.get("row-malformed", 0) == (1 if quote else 0)
    assert peak < 12 * 2**20


def test_damaged_json_is_named_and_the_rest_goes_on(folder):
    lines = [
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
    (folder / "t.jsonl").write_bytes(b"\n".join(lines))
    dataset, problems = load(folder)
    assert dataset.captions == ("fine", "half � a pair")
    named = [f"t.jsonl:{n}" for n in (2, 4, 5, 7, 8, 9, 10, 12)]
    assert wheres(problems, "row-malformed") == named
    assert wheres(problems, "caption-empty") == ["a.jpg#1"]


def test_a_damaged_group_of_parquet_rows_is_left_out(folder):
    rows = [{"image": name, "caption": f"{name} " * 9} for name in ("a.jpg", "b.jpg", "c.jpg")]
    table = pa.table({name: [row[name] for row in rows] for name in rows[0]})
    path = folder / "t.parquet"
    parquet.write_table(table, path, row_group_size=1, compression="none", use_dictionary=False)
    column = parquet.ParquetFile(path).metadata.row_group(1).column(1)
    raw = bytearray(path.read_bytes())
    start = column.data_page_offset
    raw[start : start + 16] = b"\xff" * 16
    path.write_bytes(raw)
    dataset, problems = load(folder)
    assert ids(dataset) == ["a.jpg", "c.jpg"]
    assert wheres(problems, "row-malformed") == ["t.parquet:2-2"]


def test_parquet_text_that_is_not_utf8_costs_its_row(folder):
    texts = pa.array([b"one", b"caf\xe9", b"three"], pa.binary()).view(pa.string())
    names = ["a.jpg", "b.jpg", "c.jpg"]
    parquet.write_table(pa.table({"image": names, "caption": texts}), folder / "t.parquet")
    dataset, problems = load(folder)
    assert dataset.captions == ("one", "three")
    assert wheres(problems, "row-malformed") == ["t.parquet:2"]


def test_parquet_columns_of_bytes_are_not_read(folder):
    table = pa.table({"image": ["a.jpg"], "caption": ["x"], "pixels": [b"123"]})
    parquet.write_table(table, folder / "t.parquet")
    assert load(folder)[0].metadata is None
    inside = pa.table({"image": [{"bytes": b"123", "path": "a.jpg"}], "caption": ["x"]})
    parquet.write_table(inside, folder / "t.parquet")
    with pytest.raises(FormatError, match='no column "image", it has caption'):
        load(folder)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no table at all" * 9])
def test_what_is_not_parquet_is_a_format_error(folder, content):
    (folder / "t.parquet").write_bytes(content)
    with pytest.raises(FormatError, match=r"t\.parquet: not a Parquet file"):
        load(folder)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_no_damage_to_the_bytes_is_a_defect_of_the_reader(folder, suffix):
    path = write(folder / f"t{suffix}", ROWS * 20)
    whole = path.read_bytes()
    generator = np.random.default_rng(0)
    outcomes = set()
    for _ in range(60):
        raw = bytearray(whole)
        for place in generator.integers(0, len(raw), 8):
            raw[place] = generator.choice(np.frombuffer(b'\0\n\r"\t,;\xff\xc3{}[]\\x', np.uint8))
        path.write_bytes(raw[: generator.integers(len(raw) // 2, len(raw) * 2)])
        try:
            outcomes.add(len(load(path, "train")[1]) > 0)
        except PcmeError as error:
            outcomes.add(type(error))
    assert len(outcomes) > 1


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_memory_is_that_of_the_split_not_of_the_table(folder, suffix):
    other = {"image": "b.jpg", "caption": "a jay " * 40, "split": "train"}
    write(folder / f"t{suffix}", [other] * 20_000 + [ROWS[3]])
    load(folder, "test")  # imports and caches
    tracemalloc.start()
    dataset, _ = load(folder, "test")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert dataset.captions == ("another wren",)
    assert peak < 2_000_000 < 20_000 * len(other["caption"])


@pytest.mark.parametrize("name", ["captions.csv", "birds.tsv", "metadata.jsonl", "x.parquet"])
def test_a_folder_with_a_table_is_found(folder, name):
    write(folder / name, ROWS)
    assert find(folder) == Table(folder)
    assert find(folder / name) == Table(folder / name)


def test_several_tables_are_found_for_the_error_to_name_them(folder):
    write(folder / "train.csv", ROWS)
    write(folder / "test.csv", ROWS)
    with pytest.raises(FormatError, match=r"got test\.csv, train\.csv"):
        find(folder).load("train")


def test_a_folder_with_some_other_table_is_not(folder):
    write(folder / "prices.csv", [{"item": "x", "price": 3}])
    (folder / "broken.parquet").write_bytes(b"")
    (folder / ".captions.csv").write_text("image,caption\n")
    assert not Table.recognises(folder)
    assert not Table.recognises(folder / "a.jpg")
    with pytest.raises(ConfigError, match=r"table: captions\.csv"):
        find(folder)
