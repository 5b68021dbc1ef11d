import re
from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pcme.data.aviary.attributes import ATTRIBUTES, BACKGROUND, SHAPE
from pcme.data.aviary.captions import CHANCES, MENTIONS, SUBSETS, compose, mentioned, write
from pcme.data.aviary.lexicon import PLACES, WORDS
from pcme.data.aviary.parsing import read, tokens
from pcme.retrieval.labels import UNSAID

NAMES = [attribute.name for attribute in ATTRIBUTES]
birds = st.tuples(*(st.integers(0, size - 1) for size in SHAPE)).map(np.array)
seeds = st.integers(0, 2**32 - 1)


def words_of(text):
    """Any tokeniser that parts words at spaces, hyphens and punctuation, and knows <unk>."""
    return re.findall(r"<unk>|\w+", text.lower())


def told(text):
    """What a caption says, by name."""
    said = read(words_of(text)).tolist()
    return {a.name: a.values[v] for a, v in zip(ATTRIBUTES, said, strict=True) if v != UNSAID}


def sample(count, seed=0):
    """Birds with a caption each."""
    generator = np.random.default_rng(seed)
    facts = generator.integers(0, SHAPE, (count, len(SHAPE)))
    return [(bird, write(bird, generator)) for bird in facts]


@given(birds, st.integers(0, len(SUBSETS) - 1), seeds)
def test_reading_inverts_composing(facts, number, seed):
    text = compose(facts, SUBSETS[number], np.random.default_rng(seed))
    assert read(words_of(text)).tolist() == np.where(SUBSETS[number], facts, UNSAID).tolist()
    assert tokens(text) == words_of(text)


def test_without_a_word_or_two_a_caption_says_nothing_false():
    for facts, text in sample(120, seed=1):
        words = words_of(text)
        for count in (1, 2):
            for gone in combinations(range(len(words)), count):
                kept = [word for i, word in enumerate(words) if i not in gone]
                hidden = ["<unk>" if i in gone else word for i, word in enumerate(words)]
                for rest in (kept, hidden):
                    said = read(rest)
                    assert np.all((said == UNSAID) | (said == facts)), (text, rest)


def test_captions_are_plain_english():
    text = "\n".join(text for _, text in sample(3000))
    assert text == text.lower()
    assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", text)
    assert not re.search(r"wings is|[a-rt-z>] are\b|\ba \w+ wings|  | ,| $", text, re.MULTILINE)
    assert set(re.findall(r"[^a-z\s]", text)) == set(",-<>")


def test_captions_vary():
    texts = [text for _, text in sample(3000)]
    kept = set(words_of("this is there look at the just picture has with whose that"))
    frames = Counter(" ".join(w for w in words_of(text) if w in kept) for text in texts)
    assert len([frame for frame, count in frames.items() if count >= 10]) >= 12
    assert 0.1 < np.mean(["<unk>" in text for text in texts]) < 0.3
    assert "a bird" in texts


def test_every_synonym_is_written():
    seen = {word for _, text in sample(6000) for word in words_of(text)}
    synonyms = {word for words in WORDS.values() for group in words.values for word in group}
    nouns = {word for words in WORDS.values() for word in (*words.nouns, *words.participles)}
    places = {word for group in PLACES for phrase in group for word in phrase.split()}
    assert synonyms | nouns | places <= seen


@pytest.mark.parametrize("attribute", WORDS, ids=lambda a: NAMES[a])
def test_each_value_is_read_with_each_noun_and_only_with_it(attribute):
    words = WORDS[attribute]
    for value, group in enumerate(words.values):
        expected = {NAMES[attribute]: ATTRIBUTES[attribute].values[value]}
        assert len(group) >= 2
        for word in group:
            for noun in words.nouns:
                assert told(f"a {word} {noun}") == expected
                assert told(f"the {noun} is {word}") == expected
                assert told(f"a {word} <unk> {noun}") == told(f"a <unk> {noun}") == {}
            assert told(word) == told(f"{word} <unk>") == {}
    for value, group in enumerate(words.compounds or words.values):
        for word, participle in ((w, p) for w in group for p in words.participles):
            assert told(f"{word}-{participle}") == {NAMES[attribute]: ATTRIBUTES[attribute].values[value]}


def test_each_place_is_read():
    for value, phrases in zip(ATTRIBUTES[BACKGROUND].values, PLACES, strict=True):
        assert all(told(f"a bird {phrase}") == {"background": value} for phrase in phrases)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("A SMALL red-crowned bird!", {"size": "small", "crown": "red"}),
        ("little bird with bright yellow belly", {"size": "small", "breast": "yellow"}),
        ("its crown is very red and its wings are blue", {"crown": "red", "wing": "blue"}),
        ("the wings, which are white", {"wing": "white"}),
        ("a wing that is white", {"wing": "white"}),
        ("a big spotted bird", {"size": "large", "pattern": "spotted"}),
        ("it is huge and it has a hooked beak", {"size": "large", "bill": "hooked"}),
        ("a striped red breast", {"pattern": "striped", "breast": "red"}),
        ("a red striped breast", {"pattern": "striped"}),  # the stripes may be red
        ("a red bird with a yellow bill and a small tail", {}),
        ("red crown breast wings", {"crown": "red"}),
        ("a red and blue crown", {}),
        ("a red crown and a blue crown", {}),
        ("a crown that is red and blue", {}),
        ("a red crown, a blue crown and a red crown", {}),
        ("a navy blue crown and a blue cap", {"crown": "blue"}),
        ("the crown is red and wings are blue", {"crown": "red", "wing": "blue"}),
        ("a bird without a red crown but with blue wings", {"wing": "blue"}),
        ("its crown is not red", {}),
        ("a bird that is not in a tree, with a red crown", {"crown": "red"}),
        ("sky blue wings", {"wing": "blue"}),
        ("flying over the water", {}),
        ("swimming", {"background": "water"}),
        ("long <unk> and <unk> tail", {}),
    ],
)
def test_what_people_type_is_read(text, expected):
    assert told(text) == expected


def test_captions_say_as_many_attributes_as_they_should():
    sizes = mentioned(40_000, np.random.default_rng(0)).sum(1)
    share = np.bincount(sizes, minlength=len(MENTIONS)) / len(sizes)
    error = np.sqrt(np.array(MENTIONS) / len(sizes))
    assert np.all(np.abs(share - MENTIONS) < 5 * error)


def test_size_and_tail_are_said_less_often():
    said = dict(zip(NAMES, CHANCES @ SUBSETS, strict=True))
    seldom = {said.pop("size"), said.pop("tail")}
    assert max(seldom) < 0.65 * min(said.values())


def test_chances_are_those_of_drawing_without_replacement():
    weights = np.array([attribute.weight for attribute in ATTRIBUTES])
    for number, members in enumerate(SUBSETS):
        size = int(members.sum())
        if size <= 3:
            orders = permutations(np.flatnonzero(members))
            expected = MENTIONS[size] * sum(in_order(weights, order) for order in orders)
            assert CHANCES[number] == pytest.approx(expected)
    assert CHANCES.sum() == pytest.approx(1)


def in_order(weights, order):
    """The chance that these are drawn one after the other."""
    chance, left = 1.0, weights.sum()
    for member in order:
        chance, left = chance * weights[member] / left, left - weights[member]
    return chance
