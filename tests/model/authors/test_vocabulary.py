import pickle
from collections import Counter, OrderedDict

import pytest
import torch

from pcme.errors import DataError, FormatError
from pcme.model.authors import import_checkpoint
from pcme.model.authors.vocabulary import read
from tests.model.authors import theirs

IDS = {word: number for number, word in enumerate(theirs.WORDS)}
RECORD = {"idx": len(IDS), "word2idx": IDS, "idx2word": {n: w for w, n in IDS.items()}}


def pickled(value, path, protocol=3):
    path.write_bytes(pickle.dumps(value, protocol))
    return path


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_dicts_of_any_protocol_are_read(tmp_path, protocol):
    with_the_name = {**IDS, "word2idx": len(IDS)}
    cases = [(RECORD, IDS), (OrderedDict(RECORD), IDS), (IDS, IDS), (with_the_name, with_the_name)]
    for value, expected in cases:
        assert read(pickled(value, tmp_path / "v.pkl", protocol)) == expected


@pytest.mark.parametrize("module", ["__main__", "vocab", "datasets.vocab"])
def test_their_own_class_becomes_an_inert_stand_in(tmp_path, module):
    fields = pickle.dumps(RECORD, 0).removesuffix(b".")
    (tmp_path / "v.pkl").write_bytes(f"c{module}\nVocabulary\n(tR".encode() + fields + b"b.")
    assert read(tmp_path / "v.pkl") == IDS


def test_a_malicious_pickle_is_not_executed(tmp_path):
    for value in (theirs.Malicious(f"touch {tmp_path}/owned"), eval, Counter("ab")):
        path = pickled({**RECORD, "extra": value}, tmp_path / "v.pkl")
        with pytest.raises(FormatError, match=r"it asks for .* nothing in it was executed"):
            read(path)
    assert not (tmp_path / "owned").exists()


def test_their_class_with_arguments_or_a_hostile_state_does_no_harm(tmp_path):
    """The stand-in takes no arguments, and its fields are only looked up."""
    path, stand_in = tmp_path / "v.pkl", b"cvocab\nVocabulary\n("
    hostile = (stand_in + b"S'x'\ntR.", stand_in + b"tR(S'word2idx'\nS'x'\nd\x62.")
    for program in (*hostile, b"ccollections\nOrderedDict\n(I5\ntR."):
        path.write_bytes(program)
        with pytest.raises(FormatError):
            read(path)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], "word2idx must be a dict of words and ids, got list"),
        ({"word2idx": {}}, "must be a dict"),
        ({"word2idx": {1: 1}}, "words as keys"),
        ({"word2idx": {"a": "x"}}, "whole numbers as ids"),
        ({"word2idx": {**IDS, "": 11}}, 'has an empty word, ""'),
        ({"word2idx": {**IDS, "a": 77}}, "each id from 0 to 10 once"),
        ({"word2idx": {"a": 0, "b": 1}}, "lacks <pad>, <start>, <end>, <unk>"),
    ],
)
def test_what_is_no_vocabulary_is_refused_by_name(tmp_path, value, message):
    path = pickled(value, tmp_path / "v.pkl")
    with pytest.raises(FormatError, match=message) as error:
        read(path)
    assert str(error.value).startswith(str(path))


def test_a_missing_or_damaged_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"v.pkl: cannot be read"):
        read(tmp_path / "v.pkl")
    whole = pickled(RECORD, tmp_path / "whole.pkl").read_bytes()
    for cut in range(0, len(whole), 7):
        (tmp_path / "v.pkl").write_bytes(whole[:cut])
        with pytest.raises(FormatError, match=r"v.pkl: not a vocabulary"):
            read(tmp_path / "v.pkl")


def test_a_vocabulary_beside_the_checkpoint_must_be_its_own(tmp_path):
    record = theirs.checkpoint()
    torch.save(record, tmp_path / "m.pth")
    path = pickled(RECORD, tmp_path / "v.pkl")
    assert len(import_checkpoint(tmp_path / "m.pth", vocab=path).vocab) == len(IDS)
    other = dict(zip(IDS, reversed(IDS.values()), strict=True))
    with pytest.raises(FormatError, match=r"not the vocabulary of .*m.pth"):
        import_checkpoint(tmp_path / "m.pth", vocab=pickled({"word2idx": other}, tmp_path / "o.pkl"))
    del record["word2idx"]
    torch.save(record, tmp_path / "m.pth")
    assert import_checkpoint(tmp_path / "m.pth", vocab=path).vocab.words[0] == "a"
    fewer = {word: number for word, number in IDS.items() if word != "not"}
    with pytest.raises(FormatError, match=r"has 11 rows, and .*f.pkl lists 10 words"):
        import_checkpoint(tmp_path / "m.pth", vocab=pickled({"word2idx": fewer}, tmp_path / "f.pkl"))
