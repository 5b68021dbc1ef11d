"""The authors' checkpoints: their embeddings to 1e-4, and what a wrong file says."""

import hashlib
import os

import numpy as np
import pytest
import torch
from PIL import Image

import pcme
from pcme import PcmeError
from pcme.data.images.transforms import normalise
from pcme.errors import FormatError
from pcme.model.authors import import_checkpoint
from tests.helpers import picture
from tests.model.authors import theirs

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
    return [[words["<start>"], *(words.get(w, words["<unk>"]) for w in s.split()), words["<end>"]] for s in sentences]


def compare(record, model):
    given = pixels(2)
    found = model.encode_images(list(given))
    mean, log_sigma = theirs.image_outputs(record, normalise(given, MEAN, STD))
    assert torch.allclose(found.mean, mean, **CLOSE)
    assert torch.allclose(found.log_sigma, log_sigma, **CLOSE)
    captions = ["a bird", "A red bird's blue-grey xyzzy.", "red", "a a a bird .", "", " \n"]
    spoken = ["a bird", "a red bird 's blue-grey xyzzy .", "red", "a a a bird .", "", ""]
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
    import_checkpoint(saved(record, tmp_path)).save(tmp_path / "ours")
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
    compare(record, import_checkpoint(saved(record, tmp_path)))


@torch.no_grad()
def test_ids_in_any_order_are_brought_to_ours(tmp_path):
    words = ("a", "<end>", "bird", "<unk>", "red", "<pad>", ".", "<start>", "'s", "blue-grey")
    record = theirs.checkpoint(words=words)
    compare(record, import_checkpoint(saved(record, tmp_path)))


@torch.no_grad()
def test_a_picture_is_scaled_to_256_and_cut_to_224_as_torchvision_does(tmp_path):
    """Resize(256), CenterCrop(224) of a Pillow image, worked out by hand."""
    path = picture(tmp_path / "a.png", size=(301, 200))
    record = theirs.checkpoint()
    found = import_checkpoint(saved(record, tmp_path)).encode_images([path])
    with Image.open(path) as image:
        scaled = image.convert("RGB").resize((int(256 * 301 / 200), 256), Image.BILINEAR)
    left = round((385 - 224) / 2)
    cut = np.array(scaled)[16 : 16 + 224, left : left + 224].transpose(2, 0, 1)
    mean, log_sigma = theirs.image_outputs(record, normalise(torch.from_numpy(cut.copy())[None], MEAN, STD))
    assert torch.allclose(found.mean, mean, **CLOSE)
    assert torch.allclose(found.log_sigma, log_sigma, **CLOSE)


@torch.no_grad()
def test_data_parallel_and_old_files_are_read(tmp_path):
    record = theirs.checkpoint()
    record["model"] = {
        f"module.{name}": value for name, value in record["model"].items() if not name.endswith("num_batches_tracked")
    }
    record["criterion"] = {f"module.{name}": v for name, v in record["criterion"].items()}
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
    found = model.state_dict()["images.heads.mean.base.bias"]
    assert torch.equal(found, record["model"]["img_enc.fc.bias"].float())


def test_the_settings_are_those_of_the_paper(tmp_path):
    record = theirs.checkpoint()
    model = import_checkpoint(saved(record, tmp_path))
    assert (model.recipe.name, model.recipe.data.kind) == ("authors-cub", "cub")
    assert model.vocab.rule == "treebank"


@torch.no_grad()
def test_without_a_config_the_tensors_tell_the_sizes(tmp_path):
    record = theirs.checkpoint(dim=6, word_dim=5)
    config = record.pop("config")
    model = import_checkpoint(saved(record, tmp_path))
    assert (model.recipe.dim, model.recipe.words.dim, model.recipe.data.kind) == (6, 5, "unknown")
    compare({**record, "config": config}, model)


def test_it_remembers_where_it_came_from(tmp_path):
    path = saved(theirs.checkpoint(), tmp_path)
    import_checkpoint(path).save(tmp_path / "ours")
    origin = pcme.load(tmp_path / "ours").origin
    assert (origin.file, origin.dataset, origin.epoch) == ("pcme.pth", "cub", 1)
    assert origin.scores == {"rsum": 12.5}
    assert origin.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


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
        (without("model"), "trainer, model is missing"),
        (without("criterion"), "criterion is missing.*the file that the trainer wrote"),
        (putting([], "config"), "config must be a dict, got list"),
        (without("word2idx"), "word2idx is missing.*--vocab"),
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
        (putting("vgg19", "config", "model", "cnn_type"), "cnn_type must be a resnet, got 'vgg19'"),
        (putting("resnet50", "config", "model", "cnn_type"), "that of the tensors, 'resnet18'"),
        (putting(9, "config", "model", "embed_dim"), "embed_dim must be an even whole number from 2 to 65,536, got 9"),
        (putting(60_000, "config", "model", "embed_dim"), "embed_dim must be that of .*60000"),
        (putting(65_000, "config", "model", "word_dim"), "word_dim must be that of .*65000"),
        (putting(True, "config", "model", "word_dim"), "word_dim must be a whole number"),
        (putting(False, "config", "model", "txt_attention"), "txt_attention is off"),
        (putting([], "config", "model"), "config.model must be a dict, got list"),
        (putting(-1, "config", "model", "n_samples_inference"), "n_samples_inference must be"),
        (without("criterion", "shift"), "criterion.shift must be one number, got nothing"),
        (putting(torch.tensor([torch.nan]), "criterion", "negative_scale"), "criterion.negative_scale must be finite"),
        (putting(torch.zeros(1), "criterion", "negative_scale"), "must be above 0, .* got 0"),
        (putting(-torch.ones(1), "criterion", "negative_scale"), "must be above 0, .* got -1"),
        (putting({"a": 1}, "model"), "model must be named tensors"),
        (putting(["a"], "word2idx"), "word2idx must be a dict of words and ids, got list"),
        (putting(5, "word2idx", "a"), "each id from 0 to 10 once"),
        (putting("x", "word2idx", "a"), "whole numbers as ids"),
        (putting(11, "word2idx", ""), 'word2idx has an empty word, ""'),
        (without("word2idx", "not"), "has 11 rows, and its word2idx lists 10 words"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path, change, message):
    record = theirs.checkpoint()
    change(record)
    path = saved(record, tmp_path)
    with pytest.raises(FormatError, match=message) as error:
        import_checkpoint(path)
    assert str(error.value).startswith(str(path))


class Malicious:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_a_malicious_checkpoint_is_not_executed(tmp_path):
    record = theirs.checkpoint()
    record["metadata"] = Malicious(f"touch {tmp_path / 'owned'}")
    with pytest.raises(FormatError, match=r"posix.system.*nothing in it was executed"):
        import_checkpoint(saved(record, tmp_path))
    assert not (tmp_path / "owned").exists()


def test_every_cut_of_a_file_is_an_error_of_ours(tmp_path):
    whole = saved(theirs.checkpoint(dim=2, word_dim=2), tmp_path).read_bytes()
    path = tmp_path / "cut.pth"
    for share in np.linspace(0.01, 0.99, 12):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(PcmeError):
            import_checkpoint(path)
