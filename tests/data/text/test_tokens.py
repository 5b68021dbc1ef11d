"""Tokeniser, vocabulary and spoiled captions: hand-worked cases, properties, hostile input."""

import json
import math
import os
import time
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pcme.data.text.perturbation import append_unknown, drop_words, erase_words
from pcme.data.text.tokens import END, PAD, SPECIALS, START, UNK, UNKNOWN, Vocab, tokenise
from pcme.errors import ConfigError, DataError, FormatError, ShapeError
from tests.helpers import unless_annotations_are_enforced

WORDS = st.lists(st.sampled_from(["a", "small", "bird", "with", "red", UNKNOWN]), max_size=40)


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("A Small bird.", "a small bird"),
        ("blue-grey and/or black", "blue grey and or black"),
        ("a_b, (c) [d] 'e' \"f\" #7 50%", "a b c d e f 7 50"),
        ("3.5 1,000", "3 5 1 000"),
        ("", ""),
        (" \t\n ...!?", ""),
        # contractions, as in the Penn Treebank
        ("the bird's wings", "the bird 's wings"),
        ("it's I'm he'd they'll we're you've", "it 's i 'm he 'd they 'll we 're you 've"),
        ("don't can't won't isn't", "do n't ca n't wo n't is n't"),
        ("DON’T it‘s it´s it`s it＇s", "do n't it 's it 's it 's it 's"),
        ("shouldn't've", "should n't 've"),
        ("the birds' wings", "the birds wings"),
        ("o'clock o'brien's rock'n'roll", "o'clock o'brien 's rock'n'roll"),
        ("the bird 's wings do n't", "the bird 's wings do n't"),  # already split
        # specials: only <unk> survives
        ("a <unk> <UNK>bird", "a <unk> <unk> bird"),
        ("<pad><start> x <end>", "pad start x end"),
        ("< unk > <unk", "unk unk"),
        # Unicode
        ("cafe\u0301 CAFÉ \u03aa\u0301", "café café \u0390"),  # the lower case of a normal form need not be normal
        ("ﬁve ½ ２ 𝐁ird", "five 1 2 2 bird"),
        ("İstanbul z̸a̸l̸g̸o̸", "istanbul zalgo"),
        ("co\u00adoperate non\u00a0stop 鳥 птица", "cooperate non stop 鳥 птица"),
        ("a 🐦 — “bird”…", "a bird"),
    ],
)
def test_tokenise(caption, words):
    assert tokenise(caption) == words.split()


@settings(max_examples=60)
@given(st.text() | st.text(alphabet="'’aAnsdtv <>unkpé\u0301-\u00b4`_"))
def test_words_are_lower_case_and_stay_what_they_are(caption):
    words = tokenise(caption)
    assert tokenise(" ".join(words)) == words
    for word in words:
        assert word == word.lower()
        assert word == UNKNOWN or all(c.isalnum() or c == "'" for c in word)


@pytest.mark.parametrize(
    ("unit", "length"),
    [(unit, 10**6) for unit in ("'", "’", "a'", "'s", "n't", "nn't ", "a", "é", "<unk")]
    # accents: putting those of one letter in order is slow in itself
    + [(unit, 2 * 10**5) for unit in ("\u0301\u0316", "a\u0316\u0301", "\u0f73")],
)
def test_time_is_linear_on_hostile_captions(unit, length):
    caption = unit * (length // len(unit))
    start = time.process_time()
    tokenise(caption)
    assert time.process_time() - start < 1  # quadratic: minutes


def test_words_are_ordered_by_frequency_then_by_name():
    vocab = Vocab.build(["b a c", "c b <unk>", "c d"])
    assert vocab.words == ("c", "b", "a", "d")
    assert vocab.counts == (3, 2, 1, 1)
    assert vocab == Vocab.build(["c d", "c b", "b a c"])  # the order of the captions is nothing
    assert len(vocab) == 8
    assert list(vocab) == ["c", "b", "a", "d"]
    assert Vocab.build(["a a b", "a b c"], min_count=2).words == ("a", "b")
    with pytest.raises(ConfigError, match="min_count"):
        Vocab.build([], min_count=0)


def test_encode():
    vocab = Vocab(("a", "bird"), (2, 1))
    assert (PAD, START, END, UNK) == (0, 1, 2, 3)
    assert vocab.encode(["a", "bird"]) == [1, 4, 5, 2]
    assert vocab.encode(["a", "wren"]) == [1, 4, 3, 2]
    assert vocab.encode([]) == [1, 3, 2]
    assert vocab.known(["a", "wren", "bird", UNKNOWN]) == 0.5
    assert vocab.known([]) == 0
    for special in SPECIALS:
        assert vocab.encode([special]) == [START, UNK, END]
        assert (special in vocab, vocab.known([special])) == (False, 0)


@unless_annotations_are_enforced
def test_a_caption_is_not_a_list_of_words():
    with pytest.raises(ShapeError, match="Tokenise"):
        Vocab(("a",), (1,)).encode("a bird")


@given(st.lists(WORDS, max_size=6))
def test_a_batch_is_its_rows_padded(sentences):
    vocab = Vocab.build(["a small bird with"])
    tokens = vocab.encode_batch(sentences)
    assert tokens.ids.dtype == tokens.lengths.dtype == torch.int64
    assert tokens.ids.shape == (len(sentences), max((max(len(s), 1) + 2 for s in sentences), default=0))
    for words, row, length in zip(sentences, tokens.ids, tokens.lengths, strict=True):
        assert row[:length].tolist() == vocab.encode(words)
        assert (row[length:] == PAD).all()
        expected = [word if word in vocab else UNKNOWN for word in words] or [UNKNOWN]
        assert vocab.decode(row) == " ".join(expected)


@pytest.mark.parametrize("wrong", [5, -1])
def test_decode_checks_ids(wrong):
    with pytest.raises(DataError, match=f"0 to 4, got {wrong}"):
        Vocab(("a",), (1,)).decode([1, wrong, 2])


@pytest.mark.parametrize("words", [("a", "a"), ("<pad>", "a"), ("", "a"), ("a",)])
def test_a_vocabulary_is_consistent(words):
    with pytest.raises(DataError if len(words) == 2 else ShapeError):
        Vocab(words, (1, 1))


def test_save_and_load(tmp_path):
    path = tmp_path / "vocab.json"
    vocab = Vocab.build(["a small bird's café", "鳥 <unk> a"])
    vocab.save(path)
    assert Vocab.load(str(path)) == vocab
    Vocab.build(["b"]).save(path)
    assert Vocab.load(path).words == ("b",)
    assert os.listdir(tmp_path) == ["vocab.json"]


GOOD = {"format_version": 1, "specials": list(SPECIALS), "words": ["a", "b"], "counts": [2, 1]}
WRONG = {
    "format_version": [2, None, "1"],
    "specials": [["<unk>", "<start>", "<end>", "<pad>"], None],
    "words": [["a", "a"], ["a", "<pad>"], ["a", 7], "ab", None],
    "counts": [[2], [2, 0], [2, 1.5], [2, True]],
    "rule": ["nonsense"],
}


@pytest.mark.parametrize(
    ("content", "message"),
    [(json.dumps(GOOD | {field: value}).encode(), field) for field in WRONG for value in WRONG[field]]
    + [(content, "not a vocabulary") for content in (b"", b"{", b"[1]", b'"a"', b"\xff\xfe", b"[" * 10**5)],
    ids=repr,
)
def test_load_refuses(tmp_path, content, message):
    path = tmp_path / "vocab.json"
    with pytest.raises(DataError, match=r"vocab\.json: cannot be read"):
        Vocab.load(path)
    path.write_text(json.dumps(GOOD))
    assert Vocab.load(path).words == ("a", "b")  # the change below is refused
    path.write_bytes(content)
    with pytest.raises(FormatError, match=rf"vocab\.json: .*{message}"):
        Vocab.load(path)


def test_drop_words_has_the_rates_of_the_authors_code():
    words = [f"w{i}" for i in range(25)]
    unknown, deleted = 0, Counter()
    repeats = 4000
    for seed in range(repeats):
        dropped = drop_words(words, np.random.default_rng(seed), ratio=0.1)
        assert len(dropped) == 23  # floor(0.1 * 25) = 2 are gone
        unknown += dropped.count(UNKNOWN)
        deleted.update(set(words) - set(dropped))
    assert words == [f"w{i}" for i in range(25)]
    n = 23 * repeats
    assert abs(unknown / n - 0.1) < 5 * math.sqrt(0.1 * 0.9 / n)
    # a word is out of sight when deleted (2 of 25) or unknown (1 in 10), wherever it stands
    p = 1 - (1 - 2 / 25) * 0.9
    for word in words:
        assert abs(deleted[word] / repeats - p) < 5 * math.sqrt(p * (1 - p) / repeats)
    assert len(drop_words(["w"] * 100, np.random.default_rng(0), 0.29)) == 71  # though 0.29 * 100 < 29


@given(WORDS, st.floats(0, 1), st.integers(0, 100))
def test_drop_words_leaves_one_word_at_least_in_order(words, ratio, seed):
    dropped = drop_words(words, np.random.default_rng(seed), ratio)
    assert min(len(words), 1) <= len(dropped) <= len(words)
    rest = iter(words)
    assert all(word in rest for word in dropped if word != UNKNOWN)  # a subsequence
    if ratio == 0:
        assert dropped == words


@given(WORDS, st.floats(0, 1), st.floats(0, 1), st.integers(0, 100))
def test_erase_words_is_exact_and_nested(words, one, other, seed):
    words = [f"w{i}" for i in range(len(words))]
    less, more = (erase_words(words, np.random.default_rng(seed), ratio) for ratio in sorted((one, other)))
    assert more.count(UNKNOWN) == round(max(one, other) * len(words))
    assert all(b in (a, UNKNOWN) for a, b in zip(words, less, strict=True))
    assert all(b in (a, UNKNOWN) for a, b in zip(less, more, strict=True))


def test_erase_words_erases_everywhere():
    hits = Counter()
    for seed in range(2000):
        erased = erase_words(["w"] * 5, np.random.default_rng(seed), 0.4)
        hits.update(i for i, word in enumerate(erased) if word == UNKNOWN)
    for position in range(5):
        assert abs(hits[position] / 2000 - 0.4) < 5 * math.sqrt(0.4 * 0.6 / 2000)


def test_append_unknown():
    words = ["a", "red", "bird", "here"]
    assert append_unknown(words, count=2) == [*words, UNKNOWN, UNKNOWN]
    assert append_unknown(words, ratio=0.25) == [*words, UNKNOWN]
    assert append_unknown(words, ratio=1.5) == words + [UNKNOWN] * 6
    assert append_unknown(words, count=0) == words
    assert words == ["a", "red", "bird", "here"]


@pytest.mark.parametrize("given", [{}, {"count": 1, "ratio": 0.1}, {"count": -1}, {"ratio": -1.0}])
def test_append_unknown_refuses(given):
    with pytest.raises(ConfigError):
        append_unknown(["a"], **given)


@pytest.mark.parametrize("ratio", [-0.1, 1.1, math.nan])
def test_ratios_are_shares(ratio):
    for spoil in (drop_words, erase_words):
        with pytest.raises(ConfigError, match="0 to 1"):
            spoil(["a"], np.random.default_rng(0), ratio)
