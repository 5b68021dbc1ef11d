"""Words by the rules of the Penn Treebank: cases worked with nltk 3.6.2, which the authors used."""

import time

import pytest

from pcme.data.text import Vocab
from pcme.data.treebank import treebank


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("A man riding a horse.", "a man riding a horse ."),
        ("a blue-grey, white/black bill", "a blue-grey , white/black bill"),
        ("the bird's wings aren't red", "the bird 's wings are n't red"),
        ('a sign that says "STOP" .', "a sign that says `` stop '' ."),
        ("two dogs' toys (1,000 of them) at 11:20", "two dogs ' toys ( 1,000 of them ) at 11:20"),
        ("I'll gonna cannot, they've", "i 'll gon na can not , they 've"),
        ("now 5% off... $3; #1 & more!?", "now 5 % off ... $ 3 ; # 1 & more ! ?"),
        ("A man. He rides. Dr. J. Who", "a man . he rides . dr. j. who"),
        ("", ""),
        ("  .  ", "."),
    ],
)
def test_known_cases(caption, words):
    assert treebank(caption) == words.split()


@pytest.mark.parametrize("piece", [". ", ".  \n", ".)", "'", '"', "``", "a.", "((", "-", "'s "])
def test_long_hostile_captions_take_no_quadratic_time(piece):
    start = time.process_time()
    treebank(piece * 20_000)
    assert time.process_time() - start < 5


def test_a_vocabulary_keeps_its_rule(tmp_path):
    vocab = Vocab(("a", "."), (1, 1), "treebank")
    vocab.save(tmp_path / "v.json")
    again = Vocab.load(tmp_path / "v.json")
    assert again == vocab
    assert again.split("A.") == ["a", "."]
    assert Vocab(("a",), (1,)).split("A.") == ["a"]
