"""Files of torch.save: each kind of wrong file says which kind it is, without torch's advice."""

import collections
import re

import numpy as np
import pytest
import torch

from pcme.errors import DataError, FormatError
from pcme.model.authors.pth import read
from tests.model.authors import theirs

WEIGHTS = {"img_enc.cnn.conv1.weight": torch.ones(3)}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.pth"


def test_a_missing_file_or_a_folder_cannot_be_read(path):
    for unreadable in (path, path.parent):
        with pytest.raises(DataError, match=re.escape(f"{unreadable}: cannot be read")):
            read(unreadable)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 bytes"),
        *((text, "not a file of torch.save") for text in (b"<!DOCTYPE html>", b"\x1b[31m", b"\x80\x02}.")),
    ],
)
def test_an_empty_file_and_another_kind_of_file_are_told_apart(path, content, message):
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message) as error:
        read(path)
    assert "\x1b" not in str(error.value)


def test_a_damaged_file_is_called_so(path):
    torch.save(theirs.checkpoint(dim=2, word_dim=2), path)
    data = path.read_bytes()
    for length in (8, len(data) - 200, *np.linspace(0.01, 0.99, 12) * len(data)):
        path.write_bytes(data[: int(length)])
        with pytest.raises(FormatError, match="damaged, or cut short") as error:
            read(path)
        assert not re.search(r"torch\.load|weights_only", str(error.value))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (np.zeros(2), "numpy._core.multiarray._reconstruct"),
        (collections.defaultdict(dict), "collections.defaultdict"),
        (print, "print"),
    ],
)
def test_a_class_in_it_is_named_and_no_unsafe_advice_given(path, value, name):
    torch.save({"model": WEIGHTS, "criterion": WEIGHTS, "metadata": value}, path)
    with pytest.raises(FormatError, match=rf"tensors.* alone, got ({name})") as error:
        read(path)
    assert not re.search(r"weights_only|trust|\x1b|add_safe_globals", str(error.value))


def test_another_content_is_described(path):
    torch.save(torch.ones(3), path)
    with pytest.raises(FormatError, match="trainer, got a Tensor"):
        read(path)
    torch.save(WEIGHTS, path)
    with pytest.raises(FormatError, match=r"criterion is missing, got img_enc.cnn.conv1.weight"):
        read(path)
