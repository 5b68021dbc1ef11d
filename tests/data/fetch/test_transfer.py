"""Transfers from a real server on loopback: whole, broken, resumed, changed, absent."""

import json

import numpy as np
import pytest

from pcme.data.fetch.transfer import discard, transfer
from pcme.errors import DataError
from tests.data.fetch.serving import tree

CONTENT = np.random.default_rng(0).bytes(3_000_000)
LIMIT = 4_000_000


def fetched(server, folder, **options):
    return transfer(server.url("birds.zip"), folder / "birds.zip", **({"limit": LIMIT} | options))


@pytest.fixture
def birds(server):
    server.add("birds.zip", CONTENT)
    return server


def ranges(server):
    return [wanted for _, wanted in server.asked]


def test_a_file_comes_whole_into_a_hidden_one_and_is_reported(birds, tmp_path):
    seen = []
    path = fetched(birds, tmp_path / "new", progress=lambda *report: seen.append(report))
    assert (path.read_bytes(), path.name) == (CONTENT, ".birds.zip.part")
    assert seen[0] == ("birds.zip (MB)", 1, 2)
    assert seen[-1] == ("birds.zip (MB)", 2, 2)
    assert fetched(birds, tmp_path / "new") == path
    assert ranges(birds) == [None]  # what is whole is not asked for again
    discard(tmp_path / "new" / "birds.zip")
    assert tree(tmp_path) == {}


def test_a_broken_transfer_goes_on_at_once(birds, tmp_path):
    birds.cuts = [1_200_000, 700_000]
    assert fetched(birds, tmp_path).read_bytes() == CONTENT
    assert ranges(birds) == [None, "bytes=1200000-", "bytes=1900000-"]


def test_a_transfer_that_stays_broken_goes_on_in_a_later_call(birds, tmp_path):
    birds.cuts = [1_200_000, 0]
    with pytest.raises(DataError, match=r"broke after 1,200,000 bytes, .* Run the same command again: it goes on"):
        fetched(birds, tmp_path)
    assert fetched(birds, tmp_path).read_bytes() == CONTENT
    assert ranges(birds)[-1] == "bytes=1200000-"


def test_another_version_or_address_starts_anew(birds, tmp_path):
    birds.cuts = [1_200_000, 0]
    with pytest.raises(DataError, match="broke"):
        fetched(birds, tmp_path)
    changed = CONTENT[::-1]
    birds.add("birds.zip", changed)
    assert fetched(birds, tmp_path).read_bytes() == changed
    other = birds.add("other", CONTENT)
    assert transfer(other, tmp_path / "birds.zip", limit=LIMIT).read_bytes() == CONTENT
    assert birds.asked[-1] == ("/other", None)


def test_a_server_without_ranges_starts_anew(birds, tmp_path):
    birds.ranges, birds.cuts = False, [1_200_000]
    assert fetched(birds, tmp_path).read_bytes() == CONTENT


def test_a_server_without_lengths_is_believed(birds, tmp_path):
    birds.lengths = False
    assert fetched(birds, tmp_path).read_bytes() == CONTENT


def test_a_part_longer_than_the_file_starts_anew(birds, tmp_path):
    birds.cuts = [1_200_000, 0]
    with pytest.raises(DataError, match="broke"):
        fetched(birds, tmp_path)
    with (tmp_path / ".birds.zip.part").open("ab") as file:
        file.write(bytes(2_000_000))
    assert fetched(birds, tmp_path).read_bytes() == CONTENT


def test_a_wrong_range_is_refused_and_forgotten(birds, tmp_path):
    birds.cuts, birds.start = [1_200_000], 7
    with pytest.raises(DataError, match="another range than it was asked for, got 7"):
        fetched(birds, tmp_path)
    assert tree(tmp_path) == {}


def test_without_a_network_there_is_one_sentence_and_no_folder(nowhere, tmp_path):
    with pytest.raises(DataError, match=r"cannot be reached, got Connection refused. Run it where there is a network."):
        transfer(nowhere, tmp_path / "new" / "birds.zip", limit=LIMIT)
    assert not (tmp_path / "new").exists()


def test_an_address_that_is_gone_is_named(server, tmp_path):
    with pytest.raises(DataError, match=r"birds.zip: the server refuses it, got 404 Not Found"):
        fetched(server, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("lengths", [True, False])
def test_a_file_beyond_the_limit_is_refused_and_forgotten(birds, tmp_path, lengths):
    birds.lengths = lengths
    with pytest.raises(DataError, match=r"is too long, got .* where 1,000 are the most"):
        fetched(birds, tmp_path, limit=1_000)
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("note", ["", "[]", "not JSON", json.dumps({"url": "elsewhere", "total": 3})])
def test_a_note_that_says_nothing_of_this_file_starts_anew(birds, tmp_path, note):
    (tmp_path / ".birds.zip.part").write_bytes(b"abc")
    (tmp_path / ".birds.zip.part.json").write_text(note)
    assert fetched(birds, tmp_path).read_bytes() == CONTENT
    assert ranges(birds) == [None]
