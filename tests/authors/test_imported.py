"""The authors' checkpoints: their embeddings to 1e-4, and what a wrong file says."""

import os
import re

import numpy as np
import pytest
import torch
from PIL import Image

import pcme
from pcme import DataError, FormatError, PcmeError
from pcme.authors import imported
from pcme.data.transforms import normalise
from tests.authors import theirs
from tests.helpers import picture

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLOSE = {"atol": 1e-4, "rtol": 0}


def saved(record, folder):
    torch.save(record, folder / "pcme.pth")
    return folder / "pcme.pth"


def pixels(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, 3, 224, 224), dtype=torch.uint8, generator=generator)


def ids_of(record, *sentences):
    words = record["word2idx"]
    return [
        [words["<start>"], *(words.get(w, words["<unk>"]) for w in s.split()), words["<end>"]]
        for s in sentences
    ]


def compare(record, model):
    given = pixels(2)
    found = model.encode_images(list(given))
    mean, log_sigma = theirs.image_outputs(record, normalise(given, MEAN, STD))
    assert torch.allclose(found.mean, mean, **CLOSE)
    assert torch.allclose(found.log_sigma, log_sigma, **CLOSE)
    captions = ["a bird", "A red bird's blue-grey xyzzy.", "red", "a a a bird ."]
    spoken = ["a bird", "a red bird 's blue-grey xyzzy .", "red", "a a a bird ."]
    found = model.encode_captions(captions)
    mean, log_sigma = theirs.caption_outputs(record, ids_of(record, *spoken))
    assert torch.allclose(found.mean, mean, **CLOSE)
    assert torch.allclose(found.log_sigma, log_sigma, **CLOSE)


@pytest.mark.parametrize(
    ("cnn", "dim", "word_dim"),
    [
        ("resnet18", 8, 6),
        ("resnet18", 2, 3),
        ("resnet50", 512, 300),
        pytest.param("resnet152", 1024, 300, marks=pytest.mark.slow),
    ],
)
@torch.no_grad()
def test_an_imported_model_gives_their_embeddings(tmp_path, cnn, dim, word_dim):
    record = theirs.checkpoint(cnn, dim, word_dim)
    imported(saved(record, tmp_path)).save(tmp_path / "ours")
    model = pcme.load(tmp_path / "ours")
    compare(record, model)
    # Their sigmoid is that of 2x: a and b are doubled (FACTS 0.1).
    assert model.objective.report() == {"scale": 12.5, "shift": 9.0}


@torch.no_grad()
def test_log_sigma_has_no_bounds(tmp_path):
    record = theirs.checkpoint()
    weights = record["model"]
    for name in ("img_enc.uncertain_net.fc.bias", "txt_enc.uncertain_net.fc.bias"):
        weights[name] += torch.tensor([-60.0, -20, -9, -3.6, 0, 2.5, 9, 60])
    compare(record, imported(saved(record, tmp_path)))


@torch.no_grad()
def test_ids_in_any_order_are_brought_to_ours(tmp_path):
    words = ("a", "<end>", "bird", "<unk>", "red", "<pad>", ".", "<start>", "'s", "blue-grey")
    record = theirs.checkpoint(words=words)
    compare(record, imported(saved(record, tmp_path)))


@torch.no_grad()
def test_a_picture_is_scaled_to_256_and_cut_to_224_as_torchvision_does(tmp_path):
    """Resize(256), CenterCrop(224) of a Pillow image, worked out by hand."""
    path = picture(tmp_path / "a.png", size=(301, 200))
    record = theirs.checkpoint()
    found = imported(saved(record, tmp_path)).encode_images([path])
    with Image.open(path) as image:
        scaled = image.convert("RGB").resize((int(256 * 301 / 200), 256), Image.BILINEAR)
    left = round((385 - 224) / 2)
    cut = np.array(scaled)[16 : 16 + 224, left : left + 224].transpose(2, 0, 1)
    mean, log_sigma = theirs.image_outputs(
        record, normalise(torch.from_numpy(cut.copy())[None], MEAN, STD)
    )
    assert torch.allclose(found.mean, mean, **CLOSE)
    assert torch.allclose(found.log_sigma, log_sigma, **CLOSE)


@torch.no_grad()
def test_half_precision_data_parallel_and_old_files_are_read(tmp_path):
    record = theirs.checkpoint()
    record["model"] = {
        f"module.{name}": value
        for name, value in record["model"].items()
        if not name.endswith("num_batches_tracked")
    }
    # scores of their evaluator, in part NumPy's
    record["metadata"]["scores"] = {"medr": np.float64(3.0), "n": np.int64(4), "f": np.float32(1)}
    path = tmp_path / "old.pth"
    torch.save(record, path, _use_new_zipfile_serialization=False)
    compare(theirs.checkpoint(), imported(path))
    # NumPy had another name for the same function then
    path.write_bytes(path.read_bytes().replace(b"numpy._core.multi", b"numpy.core.multi"))
    assert imported(path).recipe.dim == 8


def test_the_settings_are_those_of_the_paper(tmp_path):
    record = theirs.checkpoint()
    assert imported(saved(record, tmp_path)).recipe.name == "authors-cub"
    del record["config"]["criterion"]["uniform_lambda"]
    model = imported(saved(record, tmp_path))
    assert (model.recipe.name, model.recipe.data.kind) == ("authors-coco", "coco")
    assert model.vocab.rule == "treebank"


def without(*keys):
    def change(record):
        part = record
        for key in keys[:-1]:
            part = part[key]
        del part[keys[-1]]

    return change


def putting(value, *keys):
    def change(record):
        part = record
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (without("model"), "not a checkpoint of the authors' trainer - it has no model"),
        (without("config"), "it has no config"),
        (without("word2idx"), "it has no word2idx - give the vocabulary's file as --vocab"),
        (without("model", "img_enc.fc.bias"), r"lacks img_enc.fc.bias \(1 in all\)"),
        (without("model", "img_enc.cnn.layer4.1.bn2.running_var"), r"layer4.1.bn2.running_var"),
        (putting(torch.ones(1), "model", "img_enc.extra"), "has the unknown img_enc.extra"),
        (
            putting(torch.ones(7), "model", "img_enc.fc.bias"),
            r"another shape for img_enc.fc.bias \[7\] instead of \[8\]",
        ),
        (
            putting(torch.ones(12, 6), "model", "txt_enc.embed.weight"),
            "embed.weight has 12 rows, and its word2idx lists 11 words",
        ),
        (putting("vgg19", "config", "model", "cnn_type"), "cnn_type must be one of .*resnet152"),
        (putting("resnet50", "config", "model", "cnn_type"), "has another shape|lacks"),
        (putting(9, "config", "model", "embed_dim"), "embed_dim must be a whole number, even"),
        (putting(True, "config", "model", "word_dim"), "word_dim must be a whole number"),
        (putting(False, "config", "model", "txt_attention"), "txt_attention is off"),
        (putting([], "config", "model"), "config.model must be a dict - got list"),
        (without("criterion", "shift"), "criterion.shift must be one finite number"),
        (
            putting(torch.tensor([torch.nan]), "criterion", "negative_scale"),
            "negative_scale must be one finite",
        ),
        (putting({"a": 1}, "model"), "model must be named tensors"),
        (putting(["a"], "word2idx"), "word2idx must be a dict of words and ids - got list"),
        (putting(5, "word2idx", "a"), "each id from 0 to 10 once"),
        (putting("x", "word2idx", "a"), "whole numbers as ids"),
        (without("word2idx", "not"), "has 11 rows, and its word2idx lists 10 words"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path, change, message):
    record = theirs.checkpoint()
    change(record)
    path = saved(record, tmp_path)
    with pytest.raises(FormatError, match=message) as error:
        imported(path)
    assert str(error.value).startswith(str(path))


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "x.pth"
    with pytest.raises(DataError, match=re.escape(f"{path}: cannot be read")):
        imported(path)
    whole = saved(theirs.checkpoint(), tmp_path).read_bytes()
    for damaged in (b"", b"junk", whole[: len(whole) // 2], whole[:-200]):
        path.write_bytes(damaged)
        with pytest.raises(FormatError, match="damaged, or more than tensors"):
            imported(path)
    torch.save(torch.ones(3), path)
    with pytest.raises(FormatError, match="not a checkpoint of the authors' trainer"):
        imported(path)


class Malicious:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_a_malicious_checkpoint_is_not_executed(tmp_path):
    record = theirs.checkpoint()
    record["metadata"] = Malicious(f"touch {tmp_path / 'owned'}")
    with pytest.raises(FormatError, match="nothing in it was executed"):
        imported(saved(record, tmp_path))
    assert not (tmp_path / "owned").exists()


def test_every_cut_of_a_file_is_an_error_of_ours(tmp_path):
    whole = saved(theirs.checkpoint(dim=2, word_dim=2), tmp_path).read_bytes()
    path = tmp_path / "cut.pth"
    for share in np.linspace(0.01, 0.99, 12):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(PcmeError):
            imported(path)
