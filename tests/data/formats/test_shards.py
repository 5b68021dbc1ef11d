import gzip
import io
import json
import os
import pickle
import tarfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import webdataset
from PIL import Image

from pcme.data import find
from pcme.data.formats.shards import Shards
from pcme.data.images.decoding import ImageError
from pcme.errors import ConfigError, DataError, FormatError
from tests.data.formats.reading import ids, load_as, outcomes, traced, wheres

load = partial(load_as, Shards)


def encoded(shade=0, kind="JPEG"):
    stream = io.BytesIO()
    Image.new("RGB", (4, 3), (shade, shade, shade)).save(stream, kind)
    return stream.getvalue()


def shard(path, *members):
    """A tar with these (name or TarInfo, bytes) in this order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, raw in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(raw)
            tar.addfile(info, io.BytesIO(raw))
    return path


def sample(key, caption, shade=0):
    return (f"{key}.jpg", encoded(shade)), (f"{key}.txt", caption.encode())


def samples(count):
    return [member for number in range(count) for member in sample(str(number), "x")]


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


def error_kind(images, index):
    with pytest.raises(ImageError) as caught:
        images.load(index)
    return caught.value.kind


@pytest.fixture
def written(tmp_path):
    """Seven samples in three shards, by the library's own writer."""
    pattern = str(tmp_path / "set-%06d.tar")
    with webdataset.ShardWriter(pattern, maxcount=3, verbose=0) as writer:
        for number in range(7):
            facts = {"caption": f"caption {number}", "url": f"http://x/{number}", "class": "wren"}
            row = {"jpg": encoded(number * 30), "txt": f"caption {number}\n", "json": facts}
            writer.write({"__key__": f"birds/{number:03}", **row})
    return tmp_path


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # the library's
def test_samples_are_those_of_the_library_in_its_order(written):
    paths = sorted(str(path) for path in written.glob("*.tar"))
    assert len(paths) == 3
    theirs = list(webdataset.WebDataset(paths, shardshuffle=False))
    dataset, problems = load(written)
    assert problems.counts == {}
    assert ids(dataset) == [row["__key__"] for row in theirs]
    assert [dataset.images.read(index) for index in range(7)] == [row["jpg"] for row in theirs]
    assert list(dataset.captions) == [row["txt"].decode().strip() for row in theirs]
    stored = [json.loads(row["json"]) for row in theirs]
    assert list(dataset.metadata) == [{"url": row["url"]} for row in stored]
    assert dataset.classes.names == ("wren",)
    assert load(written, match="class")[0].multiplicity().tolist() == [7] * 7


def test_images_are_read_in_any_order_by_any_number_of_threads_and_processes(written):
    dataset, _ = load(written)
    source = pickle.loads(pickle.dumps(dataset)).images
    order = np.random.default_rng(0).integers(0, 7, 200).tolist()
    with ThreadPoolExecutor(8) as pool:
        shades = list(pool.map(lambda index: source.load(index).getpixel((0, 0))[0], order))
    assert shades == [index * 30 for index in order]
    assert source.path(0) is None


def test_a_pattern_is_expanded_as_the_library_does(written):
    pattern = written / "set-{000000..000003}.tar"
    assert webdataset.shardlists.expand_urls(str(pattern))[3].endswith("set-000003.tar")
    dataset, problems = load(pattern)
    assert len(dataset.images) == 7
    assert wheres(problems, "image-missing") == [str(written / "set-000003.tar")]
    assert ids(load(written / "set-000001.tar")[0]) == ["birds/003", "birds/004", "birds/005"]


@pytest.mark.parametrize(
    ("root", "error", "said"),
    [
        *[
            (root, FormatError, "on this machine")
            for root in ("https://x/{0..9}.tar", "pipe:cat x.tar", "s3://x/y.tar")
        ],
        *[(root, ConfigError, "shards") for root in ("x-{0..99999999999}.tar", "x-{0..9.tar")],
        (".", FormatError, "holds no shards"),
        ("gone.tar", DataError, "no such shard"),
    ],
)
def test_what_names_no_shards_is_an_error_and_nothing_is_run(tmp_path, monkeypatch, root, error, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=said):
        load(Path(root))


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tgz", "train/a.TAR.XZ"])
def test_compressed_shards_are_refused_with_advice(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(gzip.compress(b"x"))
    for root in (tmp_path, tmp_path / name):
        with pytest.raises(FormatError, match=r"must not be compressed, .* decompress"):
            Shards(root).splits  # noqa: B018


def test_json_may_hold_everything_but_the_image_and_a_text_member_comes_before_its_caption(tmp_path):
    facts = [
        {"captions": ["one", "two"], "class": 3, "labels": ["p", "q"], "width": 640},
        {"caption": "three", "cls": "wren", "labels": "q;r"},
        {"caption": ["four", "five"]},
        {"caption": "from json", "url": "u"},
    ]
    members = [(f"{n}.json", json.dumps(row).encode()) for n, row in enumerate(facts)]
    members += [(f"{n}.png", encoded(kind="PNG")) for n in range(3)]
    members += [("2.cls", b"jay\n"), ("3.cls", b"jay"), *sample("3", "\ufeffone\ncaption  of three\nlines")]
    shard(tmp_path / "a.tar", *members)
    dataset, problems = load(tmp_path)
    assert dataset.captions == ("one", "two", "three", "four", "five", "one caption of three lines")
    assert dataset.caption_image.tolist() == [0, 0, 1, 2, 2, 3]
    assert [dataset.classes.names[n] for n in dataset.classes.values] == ["3", "wren", "jay", "jay"]
    assert dataset.labels.names == ("p", "q", "r")
    assert dataset.labels.values.tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert list(dataset.metadata) == [{"width": 640}, {}, {}, {"url": "u"}]
    assert problems.counts == {}


@pytest.mark.parametrize(
    "names", [("train/0.tar", "val/0.tar"), ("train-0.tar", "val_0.tar"), ("train.tar", "val0.tar")]
)
def test_folders_or_beginnings_of_names_are_the_splits(tmp_path, names):
    root = tmp_path / "test"  # whose own name is no split
    shard(root / names[0], *sample("a", "x"))
    shard(root / names[1], *sample("a", "y"))
    assert Shards(root).splits == ("train", "val")
    assert load(root, "train")[0].captions == ("x",)
    assert load(root, "val")[0].captions == ("y",)
    with pytest.raises(ConfigError, match='no split "test", it has train, val'):
        load(root, "test")
    pattern = str(root / "{") + ",".join(names) + "}"
    assert Shards(Path(pattern)).splits == ("train", "val")
    shard(root / "training.tar", *sample("b", "z"))
    assert Shards(root).splits == ("all",)  # as one shard names none


def test_samples_may_name_their_splits(tmp_path):
    for key, split in zip("0123", ["b", "a", "b", None], strict=True):
        facts = {"caption": key} | ({"split": split} if split else {})
        shard(tmp_path / f"{key}.tar", (f"{key}.json", json.dumps(facts).encode()), (f"{key}.jpg", encoded()))
    assert Shards(tmp_path).splits == ("b", "a")
    dataset, problems = load(tmp_path, "b")
    assert dataset.captions == ("0", "2")
    assert wheres(problems, "row-malformed") == ["3"]
    assert [dataset.images.load(n).size for n in range(2)] == [(4, 3)] * 2


def test_what_is_incomplete_is_reported(tmp_path):
    damaged = {"d": b"{cut", "e": b"[1]", "f": b'{"caption": 3}', "g": b"[" * 100_000, "h": b"nothing"}
    members = [(f"{key}.json", raw) for key, raw in damaged.items()]
    members += [(f"{key}.jpg", encoded()) for key in "adefg"]
    members += [("b.txt", b"no image"), *sample("c", " "), *sample("h", "fine"), *sample("i", "fine")]
    members += [("j.jpg", encoded()), ("j.txt", b"a caf\xe9")]
    shard(tmp_path / "s.tar", *members)
    dataset, problems = load(tmp_path)
    assert dict(zip(ids(dataset), dataset.captions, strict=True)) == {"h": "fine", "i": "fine", "j": "a caf�"}
    assert wheres(problems, "caption-not-utf8") == ["s.tar/j.txt"]
    assert sorted(wheres(problems, "image-without-captions")) == list("acdefg")
    assert wheres(problems, "image-missing") == ["s.tar/b"]
    assert wheres(problems, "row-malformed") == [f"s.tar/{key}.json" for key in "defgh"]
    assert wheres(problems, "caption-empty") == ["c#0"]


def test_duplicates_are_left_out(tmp_path):
    shard(tmp_path / "0.tar", *sample("a", "first", 10), *sample("a", "again", 20))
    shard(tmp_path / "1.tar", *sample("a", "other shard", 30), *sample("b", "y", 40))
    shard(tmp_path / "2.tar", *sample("c", "z", 50), ("c.png", encoded(60, "PNG")))
    dataset, problems = load(tmp_path)
    assert dataset.captions == ("first", "y", "z")
    shades = [dataset.images.load(n).getpixel((0, 0))[0] for n in range(3)]
    assert shades == [10, 40, 50]
    expected = ["0.tar/a.jpg", "0.tar/a.txt", "2.tar/c.png", "a"]
    assert sorted(wheres(problems, "duplicate-id")) == expected


def test_members_of_a_sample_need_not_be_neighbours_and_names_may_be_longer_than_a_header(tmp_path):
    key = "ü" * 90 + "/" + "é" * 120
    (image, text), (other, other_text) = sample(key, "x", 70), sample("b", "y")
    shard(tmp_path / "0.tar", image, other, other_text, text)
    dataset, problems = load(tmp_path)
    assert list(zip(ids(dataset), dataset.captions, strict=True)) == [(key, "x"), ("b", "y")]
    assert dataset.images.load(0).getpixel((0, 0)) == (70, 70, 70)
    assert problems.counts == {}


def test_only_regular_files_inside_are_considered(tmp_path):
    (tmp_path / "secret.jpg").write_bytes(encoded())
    members = [
        special("dir", tarfile.DIRTYPE),
        special("link.jpg", tarfile.SYMTYPE, str(tmp_path / "secret.jpg")),
        special("hard.jpg", tarfile.LNKTYPE, "a.jpg"),
        special("null.jpg", tarfile.CHRTYPE),
        special("pipe.jpg", tarfile.FIFOTYPE),
        special("sparse.jpg", tarfile.GNUTYPE_SPARSE),
        *[(name, encoded()) for name in ("../up.jpg", "a/../../up.jpg", "/abs.jpg")],
        *[(name, b"x") for name in ("._a.jpg", "__notes__/b.jpg", "README", "caf\udce9.jpg", "caf\udce9.txt")],
        *sample("a", "x"),
    ]
    shard(tmp_path / "s.tar", *members)
    dataset, problems = load(tmp_path)
    assert ids(dataset) == ["a"]
    special_names = [f"s.tar/{n}.jpg" for n in ("link", "hard", "null", "pipe", "sparse")]
    assert wheres(problems, "row-malformed") == [*special_names, "s.tar/caf?.jpg", "s.tar/caf?.txt"]
    assert problems.counts == {"image-outside": 3, "row-malformed": 7}


def test_a_shard_cut_anywhere_keeps_what_comes_before(tmp_path):
    path = shard(tmp_path / "s.tar", *samples(4))
    shard(tmp_path / "t.tar", *sample("t", "y"))
    raw = path.read_bytes()
    with tarfile.open(path) as tar:
        ends = [info.offset_data + info.size for info in tar if info.name.endswith(".txt")]
    whole = (ends[-1] + 511) // 512 * 512 + 512
    for cut in range(0, len(raw) - 1024, 300):
        path.write_bytes(raw[:cut])
        dataset, problems = load(tmp_path)
        assert ids(dataset) == [*"0123"[: sum(end <= cut for end in ends)], "t"]
        assert ("row-malformed" in problems.counts) == (cut < whole)


def garbage(header):
    header[:20] = b"\xff" * 20


def size_below_zero(header):
    header[124:136] = (-(2**20)).to_bytes(12, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)


@pytest.mark.parametrize(
    ("damage", "detail"),
    [(garbage, "no proper end at byte {:,} (what comes before is kept)"), (size_below_zero, "a wrong size at byte")],
)
def test_a_shard_damaged_in_the_middle_keeps_what_comes_before_and_is_read_once(tmp_path, damage, detail):
    path = shard(tmp_path / "s.tar", *samples(3))
    shard(tmp_path / "t.tar", *sample("t", "y"))
    with tarfile.open(path) as tar:
        place = tar.getmember("1.jpg").offset
    raw = bytearray(path.read_bytes())
    header = raw[place : place + 512]
    damage(header)
    raw[place : place + 512] = header
    path.write_bytes(raw)
    dataset, problems = load(tmp_path)
    assert ids(dataset) == ["0", "t"]
    assert detail.format(place) in problems.kept("row-malformed")[0].detail


@pytest.mark.parametrize(
    ("name", "content", "detail"),
    [
        *[("a.tar", content, "what comes before is kept") for content in (b"", b"no tar at all", b"x" * 10_000)],
        *[(name, gzip.compress(b"x" * 10_000), "decompress it first") for name in ("a.tar", "a.tar.gz")],
    ],
    ids=range(5),
)
def test_what_is_not_a_tar_among_others_is_reported(tmp_path, name, content, detail):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "b.tar").mkdir()
    os.mkfifo(tmp_path / "c.tar")
    shard(tmp_path / "d.tar", *sample("d", "x"))
    dataset, problems = load(tmp_path)
    assert ids(dataset) == ["d"]
    assert wheres(problems, "row-malformed") == [str(tmp_path / name)]
    assert detail in problems.kept("row-malformed")[0].detail
    assert wheres(problems, "image-missing") == [str(tmp_path / "c.tar")]


def test_a_header_that_claims_to_be_huge_is_not_read(tmp_path):
    path = shard(tmp_path / "s.tar", *sample("a", "x"))
    with tarfile.open(path) as tar:
        end = tar.getmembers()[-1].offset_data + 512
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 2**30
    with open(path, "r+b") as file:
        file.seek(end)
        file.write(info.tobuf(tarfile.USTAR_FORMAT))
        file.truncate(end + 2**30 + 2048)
    (dataset, problems), peak = traced(load, tmp_path)
    assert ids(dataset) == ["a"]
    assert "a header of 1073741824 bytes" in problems.kept("row-malformed")[0].detail
    assert peak < 5_000_000


def test_an_image_of_over_256_mib_is_not_read(tmp_path):
    path = tmp_path / "s.tar"
    info, caption = tarfile.TarInfo("a.jpg"), tarfile.TarInfo("a.txt")
    info.size, caption.size = 2**28 + 1, 1
    with open(path, "wb") as file:
        file.write(info.tobuf())
        file.seek(2**28 + 512, os.SEEK_CUR)
        file.write(caption.tobuf() + b"x")
        file.truncate(file.tell() + 511 + 1024)
    dataset, problems = load(tmp_path)
    assert problems.counts == {}
    assert error_kind(dataset.images, 0) == "image-too-large"


def test_broken_images_and_a_shard_that_changes_are_noticed_when_they_are_read(tmp_path):
    broken = [("c.jpg", b""), ("c.txt", b"x"), ("d.jpg", b"no"), ("d.txt", b"y")]
    path = shard(tmp_path / "s.tar", *sample("a", "x"), *sample("b", "y"), *broken)
    images = load(tmp_path)[0].images
    assert [error_kind(images, index) for index in (2, 3)] == ["image-empty", "image-unreadable"]
    first, second = images.stamp(0), images.stamp(1)
    assert first != second
    assert first == load(tmp_path)[0].images.stamp(0)
    os.truncate(path, 600)
    assert images.stamp(0) != first
    assert error_kind(images, 1) == "image-truncated"
    path.unlink()
    assert images.stamp(0) == "missing"
    assert error_kind(images, 0) == "image-missing"


def test_no_damage_to_the_bytes_is_a_defect_of_the_reader(tmp_path):
    def damage(raw, generator):
        for place in generator.integers(0, len(raw), 6):
            raw[place] = generator.integers(0, 256)
        return raw

    path = shard(tmp_path / "s.tar", *(m for n in range(6) for m in sample("é" * 60 + str(n), "x")))
    assert len(outcomes(lambda: load(path), path, damage, 150)) > 3


def test_shards_are_found_but_not_in_a_tar_of_images_alone(tmp_path):
    for name, members in (("shards/train", sample("a", "x")), ("images", [("a.jpg", encoded()), ("b.jpg", encoded())])):
        path = shard(tmp_path / name / "0.tar", *members)
        folder = tmp_path / name.partition("/")[0]
        (folder / "z.tar").write_bytes(b"damaged")
        (folder / "captions.csv").write_text("image,caption\na.jpg,x\n")
        assert find(path) == Shards(path)
    assert find(tmp_path / "shards") == Shards(tmp_path / "shards")
    assert type(find(tmp_path / "images")).__name__ == "Table"
