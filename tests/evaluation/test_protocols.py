"""Protocols: the readings of each dataset, and notes on what is left out."""

import re
from dataclasses import replace

import numpy as np
import pytest

from pcme.data.dataset import NamedValues
from pcme.errors import DataError
from pcme.evaluation import protocol
from tests.evaluation.splits import COCO, FOLDS_OF_4, toy


def test_a_split_is_clustered_by_image_or_by_class():
    rules = protocol(toy(4, 3, labels=0))
    assert rules.i2t.clusters.tolist() == [0, 1, 2, 3]
    assert rules.t2i.clusters.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert (rules.i2t.ids[2:], rules.t2i.ids[:2]) == (("2.jpg", "3.jpg"), ("0.jpg#0", "0.jpg#1"))
    assert (rules.i2t.plausible, rules.notes) == (None, ())
    assert rules.i2t.matches == rules.t2i.matches.T
    dataset = toy(9, 2, classes=3)
    rules = protocol(dataset.matching_class())
    assert rules.i2t.clusters.tolist() == dataset.classes.values.tolist()
    assert rules.t2i.clusters.tolist() == np.repeat(dataset.classes.values, 2).tolist()


def test_coco_has_five_folds_that_share_nothing():
    rules = protocol(toy(20, 5), FOLDS_OF_4)
    assert [len(fold.queries) for fold in rules.t2i.folds] == [20] * 5
    assert [len(fold.gallery) for fold in rules.i2t.folds] == [20] * 5
    assert rules.t2i.fold_of.tolist() == np.repeat(np.arange(5), 20).tolist()
    assert rules.i2t.fold_of.tolist() == np.repeat(np.arange(5), 4).tolist()
    assert rules.notes == ()
    assert rules.t2i.folds[1].matches.dense().sum(1).tolist() == [1] * 20


def test_what_coco_cannot_be_judged_by_is_said():
    notes = protocol(toy(7, 5, labels=0, **COCO)).notes
    kinds = [note.partition(":")[0] for note in notes]
    assert kinds == ["no PMRP", "no 1K", "no ECCV Caption, no CxC"]
    assert notes[0] == "no PMRP: coco/test has no labels"
    assert re.search("7 usable images.*5,000", notes[1])


def test_a_split_says_itself_what_it_cannot_be_judged_by():
    whole = toy(20, 5)
    part = replace(whole, obstacles={"1k": "it is another split"})
    rules = protocol(part, FOLDS_OF_4)
    assert rules.notes == ("no 1K: it is another split",)
    assert (rules.i2t.folds, rules.t2i.folds) == ((), ())
    assert rules.t2i.plausible is not None
    assert protocol(part.subset([1, 2]), FOLDS_OF_4).notes == rules.notes
    assert len(protocol(whole, FOLDS_OF_4).i2t.folds) == 5


def test_an_empty_split_is_an_error():
    with pytest.raises(DataError, match=r"toy/test.* 0 usable images"):
        protocol(toy().subset(np.zeros(10, bool)))


def test_one_truth_has_one_digest_and_labels_have_their_own():
    splits = (toy(), toy(labels=0), toy(seed=3, classes=2).matching_class(), toy(11))
    digests = [protocol(split).digest for split in splits]
    assert digests[0] == digests[1], "labels change no right answer"
    assert len(set(digests)) == 3
    dataset = splits[0]
    fewer = dataset.labels.values.copy()
    fewer[0] = 1 - fewer[0]
    other = replace(dataset, labels=NamedValues(fewer, dataset.labels.names))
    assert protocol(toy(labels=0)).labels == ""
    assert len({protocol(each).labels for each in (dataset, toy(), other)}) == 2
    as_marks = NamedValues(dataset.labels.values.astype(bool), dataset.labels.names)
    assert protocol(replace(dataset, labels=as_marks)).labels == protocol(dataset).labels
