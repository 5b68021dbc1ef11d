"""pcme import-checkpoint: a folder that `pcme.load` reads, or a message that says what is wrong."""

import json
import pickle

import torch
from typer.testing import CliRunner

import pcme
from pcme.cli import app
from tests.model.authors import theirs


def run(*arguments):
    return CliRunner().invoke(app, ["import-checkpoint", *map(str, arguments)])


def test_a_checkpoint_becomes_a_folder_that_loads(tmp_path):
    torch.save(theirs.checkpoint(), tmp_path / "pcme_cub.pth")
    done = run(tmp_path / "pcme_cub.pth", "--out", tmp_path / "ours")
    assert done.exit_code == 0, done.output
    assert f"wrote {tmp_path / 'ours'}" in done.output
    assert "ResNet-18, 8 dimensions, 11 words, a = 12.5, b = 9" in done.output
    assert pcme.load(tmp_path / "ours").encode_captions(["a bird"]).mean.shape == (1, 8)


def test_with_its_vocabulary_and_json(tmp_path):
    record = theirs.checkpoint()
    (tmp_path / "v.pkl").write_bytes(pickle.dumps({"word2idx": record.pop("word2idx")}))
    torch.save(record, tmp_path / "m.pth")
    done = run(tmp_path / "m.pth", "--vocab", tmp_path / "v.pkl", "--out", tmp_path / "ours", "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["words"], facts["dim"], facts["scale"]) == (11, 8, 12.5)
    assert facts["model"] == str(tmp_path / "ours")


def test_a_folder_that_cannot_be_is_a_message(tmp_path):
    torch.save(theirs.checkpoint(), tmp_path / "m.pth")
    done = run(tmp_path / "m.pth", "--out", tmp_path / "m.pth")
    assert done.exit_code == 2
    assert "m.pth: cannot be the model's folder" in done.output


def test_a_wrong_file_is_a_message_and_nothing_is_written(tmp_path):
    torch.save(theirs.checkpoint(), tmp_path / "m.pth")
    (tmp_path / "m.pth").write_bytes((tmp_path / "m.pth").read_bytes()[:5_000])
    done = run(tmp_path / "m.pth", "--out", tmp_path / "ours")
    assert done.exit_code == 2
    assert f"pcme: {tmp_path / 'm.pth'}: damaged" in done.output
    assert not (tmp_path / "ours").exists()


def test_an_empty_folder_is_used_and_one_with_files_is_not(tmp_path):
    torch.save(theirs.checkpoint(), tmp_path / "m.pth")
    (tmp_path / "ours").mkdir()
    assert run(tmp_path / "m.pth", "--out", tmp_path / "ours").exit_code == 0
    before = (tmp_path / "ours" / "weights.safetensors").read_bytes()
    torch.save(theirs.checkpoint(seed=1), tmp_path / "m.pth")
    again = run(tmp_path / "m.pth", "--out", tmp_path / "ours")
    assert again.exit_code == 2
    assert "has a model already" in again.output
    assert (tmp_path / "ours" / "weights.safetensors").read_bytes() == before
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    full = run(tmp_path / "m.pth", "--out", tmp_path / "notes")
    assert full.exit_code == 2
    assert "must be new or empty, got a.txt" in full.output


def test_an_empty_name_is_not_the_folder_one_stands_in(tmp_path, monkeypatch):
    torch.save(theirs.checkpoint(), tmp_path / "m.pth")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = run(tmp_path / "m.pth", "--out", "")
    assert done.exit_code == 2
    assert "--out: must name a new folder" in done.output
    assert not list((tmp_path / "here").iterdir())
