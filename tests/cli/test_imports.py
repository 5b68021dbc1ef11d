"""pcme import-checkpoint: a folder that `pcme.load` reads, or a message that says what is wrong."""

import json
import pickle

import torch
from typer.testing import CliRunner

import pcme
from pcme.cli import app
from tests.authors import theirs


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
    done = run(
        tmp_path / "m.pth", "--vocab", tmp_path / "v.pkl", "--out", tmp_path / "ours", "--json"
    )
    assert done.exit_code == 0, done.output
    facts = json.loads(done.stdout)
    assert (facts["words"], facts["dim"], facts["scale"]) == (11, 8, 12.5)
    assert facts["model"] == str(tmp_path / "ours")


def test_a_folder_that_cannot_be_is_a_message(tmp_path):
    torch.save(theirs.checkpoint(), tmp_path / "m.pth")
    done = run(tmp_path / "m.pth", "--out", tmp_path / "m.pth")
    assert done.exit_code == 2
    assert "m.pth cannot be the model's folder" in done.output


def test_a_wrong_file_is_a_message_and_nothing_is_written(tmp_path):
    (tmp_path / "m.pth").write_bytes(b"junk")
    done = run(tmp_path / "m.pth", "--out", tmp_path / "ours")
    assert done.exit_code == 2
    assert f"pcme: {tmp_path / 'm.pth'}: damaged" in done.output
    assert not (tmp_path / "ours").exists()
