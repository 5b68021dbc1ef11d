"""pcme import-checkpoint: a folder that `pcme.load` reads, or a message that says what is wrong."""

import pickle

import pytest
import torch

import pcme
from tests.helpers import printed, record, refused
from tests.model.authors import theirs


@pytest.fixture
def checkpoint(tmp_path):
    torch.save(theirs.checkpoint(), tmp_path / "m.pth")
    return tmp_path / "m.pth"


def test_a_checkpoint_becomes_a_folder_that_loads(checkpoint, tmp_path):
    text = printed("import-checkpoint", checkpoint, "--out", tmp_path / "ours")
    assert f"wrote {tmp_path / 'ours'}" in text
    assert "ResNet-18, 8 dimensions, 11 words, a = 12.5, b = 9" in text
    assert pcme.load(tmp_path / "ours").encode_captions(["a bird"]).mean.shape == (1, 8)


def test_with_its_vocabulary_and_json(tmp_path):
    stored = theirs.checkpoint()
    (tmp_path / "v.pkl").write_bytes(pickle.dumps({"word2idx": stored.pop("word2idx")}))
    torch.save(stored, tmp_path / "m.pth")
    facts = record("import-checkpoint", tmp_path / "m.pth", "--vocab", tmp_path / "v.pkl", "--out", tmp_path / "ours")
    assert (facts["words"], facts["dim"], facts["scale"]) == (11, 8, 12.5)
    assert facts["model"] == str(tmp_path / "ours")


def test_a_wrong_file_is_a_message_and_nothing_is_written(checkpoint, tmp_path):
    assert "m.pth: cannot be the model's folder" in refused("import-checkpoint", checkpoint, "--out", checkpoint)
    checkpoint.write_bytes(checkpoint.read_bytes()[:5_000])
    message = refused("import-checkpoint", checkpoint, "--out", tmp_path / "ours")
    assert f"pcme: {checkpoint}: damaged" in message
    assert not (tmp_path / "ours").exists()


def test_an_empty_folder_is_used_and_one_with_files_or_without_a_name_is_not(checkpoint, tmp_path, monkeypatch):
    (tmp_path / "ours").mkdir()
    monkeypatch.chdir(tmp_path / "ours")
    assert "--out: must name a new folder" in refused("import-checkpoint", checkpoint, "--out", "")
    assert not list((tmp_path / "ours").iterdir())
    printed("import-checkpoint", checkpoint, "--out", tmp_path / "ours")
    before = (tmp_path / "ours" / "weights.safetensors").read_bytes()
    torch.save(theirs.checkpoint(seed=1), checkpoint)
    assert "has a model already" in refused("import-checkpoint", checkpoint, "--out", tmp_path / "ours")
    assert (tmp_path / "ours" / "weights.safetensors").read_bytes() == before
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    message = refused("import-checkpoint", checkpoint, "--out", tmp_path / "notes")
    assert "must be new or empty, got a.txt" in message
