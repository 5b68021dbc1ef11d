"""Layers models on disk: read to the bit; every contradiction is an error that names the file."""

import json

import numpy as np
import pytest

from pcme.data.fetch.layers_model import read_layers_model
from pcme.errors import FormatError
from tests.data.fetch.keras import write

WEIGHTS = {
    "a/kernel": np.arange(24, dtype="<f4").reshape(2, 3, 4),
    "a/bias": np.asarray([-1.5, 2.5], "<f4"),
    "none": np.zeros((0, 3), "<f4"),
    "one": np.asarray(7, "<f4"),
}


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_tensors_are_those_that_were_written_however_they_are_cut(tmp_path, shards):
    read = read_layers_model(write(tmp_path, WEIGHTS, shards))
    assert list(read) == list(WEIGHTS)
    assert all(np.array_equal(read[name], values) for name, values in WEIGHTS.items())
    assert read["a/kernel"].shape == (2, 3, 4)


def changed(**fields):
    """A change of the first tensor's entry."""

    def change(folder, document):
        document["weightsManifest"][0]["weights"][0].update(fields)

    return change


def group(**fields):
    def change(folder, document):
        document["weightsManifest"][0].update(fields)

    return change


def numbers(value):
    def change(folder, document):
        shard = folder / "group1-shard1of2.bin"
        shard.write_bytes(np.float32(value).tobytes() + shard.read_bytes()[4:])

    return change


FAULTS = {
    "no manifest": (lambda folder, document: document.clear(), "lacks 'weightsManifest'"),
    "a manifest of text": (lambda folder, document: document.update(weightsManifest="no"), "it lacks"),
    "no weights": (lambda folder, document: document["weightsManifest"][0].pop("weights"), "lacks 'weights'"),
    "paths of text": (group(paths="group1"), "no list of paths"),
    "shard elsewhere": (group(paths=["../secret.bin"]), "has no shard '../secret.bin'"),
    "shard at the root": (group(paths=["/etc/hostname"]), "has no shard '/etc/hostname'"),
    "shard without a name": (group(paths=[3]), "has no shard '3'"),
    "missing shard": (
        lambda folder, document: (folder / "group1-shard2of2.bin").unlink(),
        "has no shard 'group1-shard2",
    ),
    "short shard": (
        lambda folder, document: (folder / "group1-shard2of2.bin").write_bytes(b""),
        "the shards end within",
    ),
    "long shard": (group(paths=["group1-shard1of2.bin", "group1-shard2of2.bin"] * 2), "the shards hold 216 bytes, its"),
    "no name": (changed(name=None), "a tensor without a name"),
    "twice": (changed(name="a/bias"), "a/bias is there twice"),
    "no shape": (changed(shape=None), r"a/kernel of the shape"),
    "a shape of text": (changed(shape=["2", 3, 4]), "a/kernel of the shape"),
    "below zero": (changed(shape=[-2, 3, -4]), "a/kernel of the shape"),
    "beyond memory": (changed(shape=[2**20, 2**20]), "a/kernel of the shape"),
    "other numbers": (changed(dtype="int32"), "a/kernel is not plain float32"),
    "quantised": (changed(quantization={"dtype": "uint8"}), "a/kernel is not plain float32"),
    "not a number": (numbers(np.nan), "a/kernel has NaN or infinite"),
    "infinite": (numbers(-np.inf), "a/kernel has NaN or infinite"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_contradiction_is_a_format_error_that_names_the_file(tmp_path, fault):
    change, message = FAULTS[fault]
    (tmp_path / "secret.bin").write_bytes(bytes(108))
    folder = write(tmp_path / "model", WEIGHTS, 2)
    document = json.loads((folder / "model.json").read_text())
    change(folder, document)
    (folder / "model.json").write_text(json.dumps(document))
    with pytest.raises(FormatError, match=message) as caught:
        read_layers_model(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"\xff\xfe"])
def test_no_model_or_no_json_is_a_format_error(tmp_path, content):
    if content is not None:
        (tmp_path / "model.json").write_bytes(content)
    with pytest.raises(FormatError, match=r"model\.json: "):
        read_layers_model(tmp_path)
