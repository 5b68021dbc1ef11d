"""Files of torch.save: each kind of wrong file says which kind it is, without torch's advice."""

import collections
import re

import numpy as np
import pytest
import torch

from pcme.errors import DataError, FormatError
from pcme.model.authors.pth import read
from tests.model.authors import theirs


def whole(path):
    torch.save(theirs.checkpoint(dim=2, word_dim=2), path)
    return path.read_bytes()


def test_a_missing_file_or_a_folder_cannot_be_read(tmp_path):
    for path in (tmp_path / "x.pth", tmp_path):
        with pytest.raises(DataError, match=re.escape(f"{path}: cannot be read")):
            read(path)


def test_an_empty_file_and_another_kind_of_file_are_told_apart(tmp_path):
    path = tmp_path / "x.pth"
    path.write_bytes(b"")
    with pytest.raises(FormatError, match="0 bytes"):
        read(path)
    for other in (b"<!DOCTYPE html>", b"junk", b"\x1b[31m", b"\x80\x02}."):
        path.write_bytes(other)
        with pytest.raises(FormatError, match=r"not a file of torch.save") as error:
            read(path)
        assert "\x1b" not in str(error.value)


def test_a_damaged_file_is_called_so(tmp_path):
    path = tmp_path / "x.pth"
    data = whole(path)
    for damaged in (data[: len(data) // 2], data[:-200], data[:8]):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match="damaged, or cut short") as error:
            read(path)
        assert "torch.load" not in str(error.value)
        assert "weights_only" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (np.zeros(2), "numpy._core.multiarray._reconstruct"),
        (collections.defaultdict(dict), "collections.defaultdict"),
        (print, "print"),
    ],
)
def test_a_class_in_it_is_named_and_no_unsafe_advice_given(tmp_path, value, name):
    path = tmp_path / "x.pth"
    torch.save({**theirs.checkpoint(dim=2, word_dim=2), "metadata": value}, path)
    with pytest.raises(FormatError, match=rf"tensors.* alone, got ({name})") as error:
        read(path)
    assert not re.search(r"weights_only|trust|\x1b|add_safe_globals", str(error.value))


def test_what_is_no_checkpoint_says_what_it_has(tmp_path):
    path = tmp_path / "x.pth"
    torch.save(torch.ones(3), path)
    with pytest.raises(FormatError, match="trainer, got a Tensor"):
        read(path)
    torch.save(theirs.checkpoint()["model"], path)
    with pytest.raises(FormatError, match=r"criterion is missing, got img_enc.cnn.conv1.weight"):
        read(path)
