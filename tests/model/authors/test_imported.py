"""The authors' checkpoints: their embeddings to 1e-4, and what a wrong file says."""

import hashlib
from functools import reduce
from operator import getitem

import numpy as np
import pytest
import torch
from PIL import Image

import pcme
from pcme.data.images.transforms import normalise
from pcme.errors import FormatError
from pcme.model.authors import import_checkpoint
from tests.helpers import picture
from tests.model.authors import theirs

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def saved(record, folder):
    torch.save(record, folder / "pcme.pth")
    return folder / "pcme.pth"


def ids_of(record, *sentences):
    words = record["word2idx"]
    return [[words["<start>"], *(words.get(w, words["<unk>"]) for w in s.split()), words["<end>"]] for s in sentences]


def assert_close(embedded, outputs):
    for values, expected in zip((embedded.mean, embedded.log_sigma), outputs, strict=True):
        torch.testing.assert_close(values, expected, atol=1e-4, rtol=0)


@torch.no_grad()
def compare(record, model):
    expected = theirs.Model.of(record)
    pixels = torch.randint(256, (2, 3, 224, 224), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    assert_close(model.encode_images(list(pixels)), expected.images(normalise(pixels, MEAN, STD)))
    captions = ["a bird", "A red bird's blue-grey xyzzy.", "red", "a a a bird .", "", " \n"]
    spoken = ["a bird", "a red bird 's blue-grey xyzzy .", "red", "a a a bird .", "", ""]
    assert_close(model.encode_captions(captions), expected.captions(ids_of(record, *spoken)))


@pytest.mark.parametrize(
    ("cnn", "dim", "word_dim"),
    [
        ("resnet18", 8, 6),
        ("resnet18", 2, 3),
        ("resnet50", 512, 300),
        pytest.param("resnet152", 1024, 300, marks=pytest.mark.slow),
    ],
)
def test_an_imported_model_gives_their_embeddings(tmp_path, cnn, dim, word_dim):
    record = theirs.checkpoint(cnn, dim, word_dim)
    import_checkpoint(saved(record, tmp_path)).save(tmp_path / "ours")
    model = pcme.load(tmp_path / "ours")
    compare(record, model)
    # Their sigmoid is that of 2x: a and b are doubled (FACTS 0.1).
    assert model.objective.report() == {"scale": 12.5, "shift": 9.0}


def test_log_sigma_has_no_bounds(tmp_path):
    record = theirs.checkpoint()
    for name in ("img_enc.uncertain_net.fc.bias", "txt_enc.uncertain_net.fc.bias"):
        record["model"][name] += torch.tensor([-60.0, -20, -9, -3.6, 0, 2.5, 9, 60])
    compare(record, import_checkpoint(saved(record, tmp_path)))


def test_ids_in_any_order_are_brought_to_ours(tmp_path):
    words = ("a", "<end>", "bird", "<unk>", "red", "<pad>", ".", "<start>", "'s", "blue-grey")
    record = theirs.checkpoint(words=words)
    model = import_checkpoint(saved(record, tmp_path))
    compare(record, model)
    assert model.vocab.words == ("a", "bird", "red", ".", "'s", "blue-grey")


@torch.no_grad()
def test_an_image_is_scaled_to_256_and_cut_to_224_as_torchvision_does(tmp_path):
    """Resize(256), CenterCrop(224) of a Pillow image, worked out by hand."""
    path = picture(tmp_path / "a.png", size=(301, 200))
    record = theirs.checkpoint()
    with Image.open(path) as image:
        scaled = image.convert("RGB").resize((int(256 * 301 / 200), 256), Image.BILINEAR)
    left = round((385 - 224) / 2)
    cut = torch.from_numpy(np.array(scaled)[16 : 16 + 224, left : left + 224].transpose(2, 0, 1).copy())
    expected = theirs.Model.of(record).images(normalise(cut[None], MEAN, STD))
    assert_close(import_checkpoint(saved(record, tmp_path)).encode_images([path]), expected)


def test_data_parallel_and_old_files_are_read(tmp_path):
    record = theirs.checkpoint()
    for part in ("model", "criterion"):
        counted = {n: v for n, v in record[part].items() if not n.endswith("num_batches_tracked")}
        record[part] = {f"module.{name}": value for name, value in counted.items()}
    # scores of their evaluator, in part NumPy's
    record["metadata"]["scores"] = {"medr": np.float64(3.0), "n": np.int64(4), "f": np.float32(1)}
    path = tmp_path / "old.pth"
    torch.save(record, path, _use_new_zipfile_serialization=False)
    compare(theirs.checkpoint(), import_checkpoint(path))
    # NumPy had another name for the same function then
    path.write_bytes(path.read_bytes().replace(b"numpy._core.multi", b"numpy.core.multi"))
    assert import_checkpoint(path).recipe.dim == 8


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_any_precision_are_read(tmp_path, kind):
    record = theirs.checkpoint()
    for part in ("model", "criterion"):
        record[part] = {n: v.to(kind) if v.is_floating_point() else v for n, v in record[part].items()}
    model = import_checkpoint(saved(record, tmp_path))
    assert {value.dtype for value in model.parameters()} == {torch.float32}
    bias = model.state_dict()["images.heads.mean.base.bias"]
    assert torch.equal(bias, record["model"]["img_enc.fc.bias"].float())


def test_without_a_config_the_tensors_tell_the_sizes(tmp_path):
    record = theirs.checkpoint(dim=6, word_dim=5)
    model = import_checkpoint(saved({**record, "config": None}, tmp_path))
    assert (model.recipe.name, model.recipe.data.kind) == ("authors-unknown", "unknown")
    assert (model.recipe.dim, model.recipe.words.dim, model.recipe.method.params["samples"]) == (6, 5, 7)
    compare(record, model)


def test_it_remembers_its_settings_and_its_origin(tmp_path):
    record = theirs.checkpoint()
    record["config"]["model"]["n_samples_inference"] = 3
    path = saved(record, tmp_path)
    import_checkpoint(path).save(tmp_path / "ours")
    model = pcme.load(tmp_path / "ours")
    assert model.recipe.method.params["samples"] == 3
    assert (model.recipe.name, model.recipe.data.kind, model.vocab.rule) == ("authors-cub", "cub", "treebank")
    origin = model.origin
    assert (origin.file, origin.dataset, origin.epoch, origin.scores) == ("pcme.pth", "cub", 1, {"rsum": 12.5})
    assert origin.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


GONE = object()


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model", GONE, "trainer, model is missing.*the file that the trainer wrote"),
        ("model", {"a": 1}, "model must be named tensors"),
        ("model/img_enc.fc.bias", GONE, r"lacks img_enc.fc.bias \(1 in all\)"),
        ("model/img_enc.extra", torch.ones(1), "has the unknown img_enc.extra"),
        ("model/img_enc.fc.bias", torch.ones(7), r"another shape for img_enc.fc.bias \[7\] instead of \[8\]"),
        ("model/txt_enc.embed.weight", torch.ones(12, 6), "has 12 rows, and its word2idx lists 11 words"),
        ("config", [], "config must be a dict, got list"),
        ("config/model", [], "config.model must be a dict, got list"),
        ("config/model/cnn_type", "resnet50", "that of the tensors, 'resnet18'"),
        ("config/model/word_dim", "6", "word_dim must be that of .*'6'"),
        ("config/model/txt_attention", False, "txt_attention is off"),
        ("config/model/n_samples_inference", -1, "n_samples_inference must be"),
        ("criterion/shift", GONE, "criterion.shift must be one number, got nothing"),
        ("criterion/negative_scale", torch.tensor([torch.nan]), "criterion.negative_scale must be finite"),
        ("criterion/negative_scale", torch.zeros(1), "must be above 0, .* got 0"),
        ("word2idx", GONE, "word2idx is missing.*--vocab"),
        ("word2idx/a", 5, "each id from 0 to 10 once"),
        ("word2idx/not", GONE, "has 11 rows, and its word2idx lists 10 words"),
        ("metadata", theirs.Malicious("touch owned"), "posix.system.*nothing in it was executed"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path, monkeypatch, key, value, message):
    monkeypatch.chdir(tmp_path)
    record = theirs.checkpoint()
    *path, last = key.split("/")
    part = reduce(getitem, path, record)
    if value is GONE:
        del part[last]
    else:
        part[last] = value
    path = saved(record, tmp_path)
    with pytest.raises(FormatError, match=message) as error:
        import_checkpoint(path)
    assert str(error.value).startswith(str(path))
    assert not (tmp_path / "owned").exists()
