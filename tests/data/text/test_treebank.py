"""Words by the rules of the Penn Treebank: cases worked with nltk's `word_tokenize`."""

import sys
import time

import pytest

from pcme.data.text import treebank as module
from pcme.data.text.tokens import END, START, Vocab
from pcme.data.text.treebank import treebank
from pcme.errors import ConfigError, DataError


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
        # sentences end as Punkt finds them
        ("A U.S. flag on a pole", "a u.s. flag on a pole"),
        ("The sign of 5th Ave. and Main St. in town", "the sign of 5th ave. and main st. in town"),
        ("at 3 p.m. on a D.C. street", "at 3 p.m. on a d.c. street"),
        ("a 5 ft. giraffe by the train co. sheds", "a 5 ft. giraffe by the train co. sheds"),
        ("Fruits, etc. on a table", "fruits , etc . on a table"),
        ('A sign says "stop." A man walks.', "a sign says `` stop . '' a man walks ."),
        ("a dog (brown.) and a cat", "a dog ( brown . ) and a cat"),
        ("dogs in room 2. one is asleep", "dogs in room 2. one is asleep"),
        ("dogs in room 2. administrators sleep", "dogs in room 2 . administrators sleep"),
        ("no. 7, i.e. B. Smith", "no . 7 , i.e . b. smith"),
        ("wait . . . what", "wait . . . what"),
        ("two dogs.one cat", "two dogs.one cat"),
    ],
)
def test_known_cases(caption, words):
    assert treebank(caption) == words.split()


def test_without_nltk_it_says_what_to_install(monkeypatch):
    module._tokenizer.cache_clear()
    monkeypatch.setitem(sys.modules, "nltk.tokenize", None)
    with pytest.raises(ConfigError, match=r"pip install 'pcme\[authors\]'"):
        treebank("a bird")


def test_a_caption_that_nltk_gives_up_on_is_named(monkeypatch):
    def slow(text):
        raise TimeoutError

    monkeypatch.setattr(module, "sentences", slow)
    with pytest.raises(DataError, match=r'"a bird...": takes nltk too long .* 6 characters'):
        treebank("a bird")


@pytest.mark.parametrize("piece", [". ", ".  \n", ".)", "'", '"', "``", "a.", "((", "-", "'s ", " ", "!"])
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
    assert again.encode([]) == [START, END]  # as the authors have it
