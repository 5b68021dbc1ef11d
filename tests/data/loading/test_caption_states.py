"""States of captions, cached: those of each caption alone, computed once, never read when stale."""

import json

import numpy as np
import pytest
import torch

from pcme.data.loading.caption_states import BATCH, CaptionStates, Encoder
from pcme.data.text.tokens import Tokens
from pcme.errors import FormatError
from tests.helpers import generator

WIDTH = 3


def captions(count=BATCH + 9, longest=7):
    lengths = torch.randint(1, longest + 1, (count,), generator=generator(1))
    ids = torch.randint(1, 50, (count, longest), generator=generator(2))
    return Tokens(ids * (torch.arange(longest) < lengths[:, None]), lengths)


class Tower:
    """States are functions of a token and its place; the batches are noted."""

    def __init__(self):
        self.seen = []

    def __call__(self, tokens):
        self.seen.append(tokens)
        place = torch.arange(tokens.ids.shape[1])
        return torch.stack([tokens.ids / 4, tokens.ids + place, place.expand_as(tokens.ids)], -1)


def opened(folder, tokens, digest="one", tower=None, **options):
    tower = tower or Tower()
    return CaptionStates.open_or_compute(folder, tokens, Encoder(digest, WIDTH, tower), **options), tower.seen


def test_rows_are_the_states_of_each_caption_alone(tmp_path):
    tokens = captions()
    states, seen = opened(tmp_path, tokens)
    assert len(states) == len(tokens.ids)
    for row, length in enumerate(tokens.lengths.tolist()):
        alone = Tower()(Tokens(tokens.ids[row : row + 1, :length], tokens.lengths[row : row + 1]))[0]
        assert torch.equal(states.row(row), alone)  # small numbers: half precision has them exactly
    assert states.row(0).dtype == torch.float32
    assert [len(batch.ids) for batch in seen] == [BATCH, 9]
    assert all(batch.ids.shape[1] == batch.lengths.max() for batch in seen)


def test_they_are_computed_once_for_the_same_ids_and_tower(tmp_path):
    tokens, reports = captions(20), []
    first, seen = opened(tmp_path, tokens, progress=lambda *report: reports.append(report))
    assert reports == [("states of the captions", 20, 20)]
    again, unseen = opened(tmp_path, tokens)
    assert (len(seen), len(unseen)) == (1, 0)
    assert np.array_equal(first.features, again.features)
    other = Tokens(tokens.ids + (tokens.ids > 0), tokens.lengths)
    shorter = Tokens(tokens.ids, (tokens.lengths - 1).clamp(min=1))
    for changed, digest in ((other, "one"), (shorter, "one"), (tokens, "two")):
        assert len(opened(tmp_path, changed, digest)[1]) == 1
    assert len(list(tmp_path.glob("*/manifest.json"))) == 4


def test_an_interrupted_computation_leaves_nothing_to_be_read(tmp_path):
    tokens, tower = captions(), Tower()

    def broken(batch):
        if tower.seen:
            raise RuntimeError("stopped")
        return tower(batch)

    with pytest.raises(RuntimeError, match="stopped"):
        opened(tmp_path, tokens, tower=_Calls(broken))
    assert not list(tmp_path.glob("*/manifest.json"))
    states, seen = opened(tmp_path, tokens)
    assert len(seen) == 2
    assert torch.equal(states.row(3)[:, 2], torch.arange(float(tokens.lengths[3])))


class _Calls:
    def __init__(self, call):
        self.seen, self.call = [], call

    def __call__(self, tokens):
        return self.call(tokens)


@pytest.mark.parametrize("damage", ["version", "starts", "features"])
def test_damaged_states_are_a_format_error(tmp_path, damage):
    opened(tmp_path, captions(20))
    (manifest,) = tmp_path.glob("*/manifest.json")
    if damage == "version":
        manifest.write_text(json.dumps({"format_version": 99}))
    elif damage == "starts":
        np.save(manifest.with_name("starts.npy"), np.arange(3))
    else:
        manifest.with_name("features.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(FormatError, match="Delete it"):
        opened(tmp_path, captions(20))


def test_states_beyond_half_precision_are_refused(tmp_path):
    with pytest.raises(FormatError, match="half precision"):
        opened(tmp_path, captions(4), tower=_Calls(lambda tokens: torch.full((*tokens.ids.shape, WIDTH), 1e6)))
