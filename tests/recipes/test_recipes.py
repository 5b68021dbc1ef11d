import json
import math
import shutil
from pathlib import Path

import pytest
import torch

from pcme import Gaussian, methods, recipes
from pcme.data.text.tokens import Vocab
from pcme.errors import PcmeError
from pcme.methods.regularisers import kl_to_standard_normal
from pcme.model import Model
from pcme.recipes import difference, get
from pcme.recipes.schema import from_record
from pcme.training import train
from tests.data.formats.test_own import shards, sidecar, table
from tests.helpers import real, real_weights, record
from tests.nn import tiny
from tests.training.trained import logged, losses, train_cut

BASES = {
    "aviary-tiny": "aviary",
    "clip-heads": "own",
    "coco": "cub",
    "cub-captions": "cub-effnet",
    "cub-captions-finetune": "cub-effnet-finetune",
    "cub-effnet": "cub",
    "cub-effnet-finetune": "cub-effnet",
    "cub-effnet-overlap": "cub-effnet",
    "cub-resnet50": "cub-effnet",
    "cub-resnet50-finetune": "cub-resnet50",
    "cub-toy": "cub-effnet",
    "flickr8k-effnet": "cub-effnet",
    "own": "flickr8k-effnet",
    "regions": "own",
    "vectors": "own",
}
everywhere = pytest.mark.parametrize("name", recipes.names())


@everywhere
def test_a_recipe_is_what_its_record_says(name):
    stored = json.loads(json.dumps(get(name).record()))
    assert stored["name"] == name
    assert from_record(stored) == get(name)
    assert from_record(stored).record() == stored


@everywhere
def test_a_recipe_is_a_small_difference_from_another(name):
    base = BASES.get(name)
    assert base or name in ("aviary", "cub"), "a new recipe: say here which one it comes from"
    changed = {key.split(".")[0] for key in difference(get(name), get(base or name))}
    assert len(changed) <= 9


def test_in_what_two_of_them_differ():
    assert difference(get("own"), get("flickr8k-effnet")) == {
        "name": ("flickr8k-effnet", "own"),
        "data.kind": ("flickr8k", "own"),
        "phases.0.epochs": (6, 20),
        "phases.0.warmup_steps": (50, 10),
        "validation.split": ("dev", "val"),
        "validation.every_epochs": (2, 1),
    }
    keys = set(difference(get("cub-effnet-finetune"), get("cub-effnet")))
    others = {key for key in keys if not key.startswith(("phases.1.", "image."))}
    assert others == {"name", "augment.size", "augment.views"}
    words_and_minilm = {"name", "augment.caption_views", "caption.kind"} | {f"caption.parts.{n}.kind" for n in (0, 1)}
    assert set(difference(get("cub-captions"), get("cub-effnet"))) == words_and_minilm
    tuned = {"phases.1.text_tower", "phases.1.text_tower_factor"}
    assert set(difference(get("cub-captions-finetune"), get("cub-effnet-finetune"))) == words_and_minilm | tuned


@pytest.mark.parametrize(
    ("name", "depth", "dim", "epochs", "rates", "starts"),
    [("cub", 50, 512, [10, 50], [1e-4, 1e-4], 10), ("coco", 152, 1024, [30, 30], [2e-4, 2e-5], 30)],
)
def test_the_papers_settings(name, depth, dim, epochs, rates, starts):
    """Paper: §4.1, §C.2; a and b in units of the standard sigmoid (docs/science/errata.md)."""
    recipe = get(name)
    method = methods.create(recipe.method.kind, **recipe.method.params)
    assert (recipe.image.params["depth"], recipe.dim) == (depth, dim)
    assert [phase.epochs for phase in recipe.phases] == epochs
    assert [phase.learning_rate for phase in recipe.phases] == rates
    assert [phase.backbone for phase in recipe.phases] == ["frozen", "all"]
    assert (method.samples, method.likelihood) == (7, "sampled")
    assert (method.scale, method.shift) == (starts, starts)
    assert (method.log_sigma_bounds, method.positives) == ("none", "matches")
    assert [phase.words for phase in recipe.phases] == ["frozen", "trained"]
    assert (recipe.augment.cutout, recipe.augment.word_drop) == (0.2, 0.1)


@pytest.mark.parametrize(
    ("name", "beta", "lam", "batch"), [("cub", 1e-3, 10.0, 150), ("coco", 1e-5, 0.0, 128), ("cub-toy", 1e-3, 10.0, 150)]
)
def test_the_weights_are_beta_and_lambda_in_our_units(name, beta, lam, batch):
    """Theirs is 2 Σ nll + λ uniformity + β Σ KL, the KL of log σ for log σ²; over 2B, it begins as ours, Σ nll / B.

    With our weights a narrow σ is then pulled as hard as by theirs. Paper: §C.2. In `cub-toy`, whose batches are nine
    pairs, uniformity weighs for an item what it weighs in `cub`.
    """
    recipe = get(name)
    weights = methods.create(recipe.method.kind, **recipe.method.params).weights
    s = torch.full((batch, recipe.dim), -9.0, dtype=torch.float64, requires_grad=True)
    mean = torch.full((batch, recipe.dim), 0.1, dtype=torch.float64)
    theirs = beta * (-0.5 * (1 + s - mean.square() - s.exp())).sum() / (2 * batch)
    ours = weights["kl"] * kl_to_standard_normal(Gaussian(mean, s))
    pulls = [torch.autograd.grad(term, s)[0] for term in (theirs, ours)]
    torch.testing.assert_close(*pulls, rtol=1e-3, atol=0)
    assert weights["uniformity"] == pytest.approx(lam / (2 * batch), rel=2e-3)
    assert weights["fit"] == weights["breadth"] == 0
    assert recipe.sampling.kind == "one-per-class" or recipe.sampling.batch_size == batch


def test_the_defaults_are_those_of_cub_rounded_and_other_dimensions_have_their_own():
    weights, small = methods.create("pcme").weights, get("cub-effnet")
    assert weights["kl"] == pytest.approx(1e-3 * 512 / 4, rel=0.02)
    assert weights["uniformity"] == methods.create("pcme-mu").weights["uniformity"] == pytest.approx(10 / 300, rel=0.11)
    assert small.method.params["kl_weight"] == pytest.approx(1e-3 * small.dim / 4)
    assert weights["kl"] == pytest.approx(4 * 1e-3 * get("aviary").dim / 4, rel=0.02), "four times what β is there"


def read_by_a_small_tower(folder):
    """A caption backbone in place of MiniLM, as JSON."""
    tiny.saved(tiny.bert, folder, words=True)
    return json.dumps({"kind": "hub", "source": str(folder), "pool": "mean"})


@everywhere
def test_a_recipe_builds_its_model(name, tmp_path):
    recipe = get(name)
    if recipe.image.kind == "hub":
        tiny.saved(tiny.clip, tmp_path, words=True)
        sources = [f"{side}.source={tmp_path}" for side in ("image", "caption")]
        recipe = recipe.changed([*sources, "augment.size=16", "dim=8"])
    if "minilm" in str(recipe.caption.params):
        recipe = recipe.changed([f"caption.parts.1={read_by_a_small_tower(tmp_path)}"])
    if name == "regions":  # of its own size, a few hundred million weights
        recipe = recipe.changed(["dim=8", "image.features=512"])
    if recipe.image.kind.startswith("resnet"):
        recipe = recipe.changed(["image.weights=null"])
    vocab = Vocab.build(["a red bird"])
    model = Model(recipe, vocab, torch.zeros(len(vocab), recipe.words.dim)).eval()
    size = min(64, recipe.augment.size)
    pixels = torch.zeros(1, 3, size, size, dtype=torch.uint8)
    with torch.no_grad():
        if recipe.image.kind == "precomputed":
            images, words = model.embed_images(torch.zeros(1, 2, 512)), recipe.caption.kind == "gru"
            captions = model.encode_captions(["a bird"]) if words else model.embed_caption_vectors(torch.zeros(1, 512))
        else:
            images, captions = model.embed_images(pixels), model.encode_captions(["a bird"])
    assert images.dim == captions.dim == recipe.dim


@pytest.mark.parametrize("name", ["cub", "coco", "cub-resnet50"])
def test_the_papers_backbone_does_not_silently_start_from_nothing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    vocab = Vocab.build(["a"])
    with pytest.raises(PcmeError, match=r"resnet\d+(\.pth|-keras\.safetensors): cannot be read"):
        Model(get(name), vocab, torch.zeros(len(vocab), get(name).words.dim))


TINY = get("aviary-tiny").changed(["phases.0.epochs=1"])
SWITCHES = [
    ["method.mean_attention=false"],
    ["method.sigma_attention=false"],
    ["method.sigma_squashed=true"],
    ["method.covariance=isotropic"],
    ["method.covariance=isotropic", "method.sigma_squashed=true"],
    ["method.covariance=none"],
    ["method.likelihood=overlap"],
    ["method.likelihood=overlap", "method.covariance=isotropic"],
    ["method.likelihood=analytic", "method.positives=diagonal"],
    ["method.likelihood=sampled", "method.samples=1", "method.positives=matches-weighted"],
    ["method.likelihood=sampled", "method.samples=3", "method.positives=matches"],
    ["method.mean_norm=false"],
    ["method.mean_unit=false", "method.mean_attention=false"],
    ["method.log_sigma_bounds=none", "method.uniformity=samples"],
    ["caption.hidden=6"],
    ["dim=2"],
    ["dim=64"],
]


@pytest.mark.parametrize("switches", SWITCHES, ids=" ".join)
def test_every_ablation_trains(switches, tmp_path):
    """Paper: §D."""
    train_cut(TINY.changed(['method={"kind":"pcme"}', *switches]), tmp_path, 2, workers=0)
    assert all(map(math.isfinite, losses(tmp_path)))


SMALL = [
    'image={"kind":"convnet","widths":[8,16]}', "augment.size=16", "dim=8",
    'words={"dim":8}', "phases.0.epochs=2", "phases.0.warmup_steps=1",
]  # fmt: skip


@pytest.mark.parametrize("write", [table, sidecar, shards])
def test_own_trains_on_every_layout(tmp_path, write):
    folder = write(tmp_path / "photos")
    model = train(get("own").changed(SMALL), tmp_path / "run", data_root=folder, workers=0)
    assert len(model.encode_captions(["a bird"])) == 1
    assert (tmp_path / "run" / "weights.safetensors").is_file()


def test_own_takes_a_folder_of_few_pictures_as_it_is(tmp_path):
    """Nothing set but the backbone: 20 pictures are one batch an epoch."""
    recipe = get("own").changed(SMALL[:4])
    train_cut(recipe, tmp_path / "run", 2, data_root=sidecar(tmp_path / "photos"), workers=0)


def test_own_on_the_command_line(tmp_path):
    folder = table(tmp_path / "photos")
    options = [word for change in SMALL for word in ("--set", change)]
    found = record("train", "own", "--data-root", folder, "--out", tmp_path / "run", *options)
    assert 0 <= found["validation"]["t2i"]["recall@1"] <= 1


def test_own_without_a_folder_says_what_to_give(tmp_path, monkeypatch):
    monkeypatch.delenv("PCME_DATA", raising=False)
    with pytest.raises(PcmeError, match="needs its files"):
        train(get("own"), tmp_path)


def small_cub(root: Path, whole: Path, classes=3, images=3, captions=2) -> Path:
    """A few images of the first classes of the first training fold, and of the validation fold."""
    (root / "splits").mkdir(parents=True)
    for file in (whole / "splits").glob("*.txt"):
        shutil.copy(file, root / "splits")
    for fold in ("trainclasses1.txt", "valclasses1.txt"):
        listed = (whole / "splits" / fold).read_text().split()
        for name in [name for name in listed if (whole / "images" / name).is_dir()][:classes]:
            (root / "images" / name).mkdir(parents=True)
            (root / "text_c10" / name).mkdir(parents=True)
            for file in sorted((whole / "images" / name).glob("*.jpg"))[:images]:
                shutil.copy(file, root / "images" / name)
                text = f"text_c10/{name}/{file.stem}.txt"
                (root / text).write_text("\n".join((whole / text).read_text().splitlines()[:captions]))
    return root


def small_flickr(root: Path, whole: Path, images=8) -> Path:
    (root / "images").mkdir(parents=True)
    kept = set()
    for split in ("train", "dev"):
        listed = (whole / f"Flickr_8k.{split}Images.txt").read_text().split()
        some = [name for name in listed if (whole / "images" / name).is_file()][:images]
        (root / f"Flickr_8k.{split}Images.txt").write_text("\n".join(some))
        kept |= set(some)
    for name in kept:
        shutil.copy(whole / "images" / name, root / "images")
    lines = (whole / "Flickr8k.token.txt").read_text(encoding="utf-8").splitlines()
    chosen = [line for line in lines if line.partition("#")[0] in kept]
    (root / "Flickr8k.token.txt").write_text("\n".join(chosen), encoding="utf-8")
    return root


@pytest.mark.parametrize("name", ["cub-effnet", "cub-effnet-finetune", "cub-resnet50-finetune", "flickr8k-effnet"])
def test_pretrained_recipes_train_on_real_photographs(name, tmp_path):
    """All phases, the cache of features, GloVe and validation; few photographs, small heads."""
    kind = get(name).data.kind
    make = {"cub": small_cub, "flickr8k": small_flickr}[kind]
    root = make(tmp_path / kind, real(kind))
    short = [
        f"phases.{number}.{change}"
        for number in range(len(get(name).phases))
        for change in ("epochs=1", "warmup_steps=1")
    ]
    if get(name).image.kind == "resnet-keras":
        short.append(f"image.weights={real_weights(get(name).image.params['weights'])}")
    recipe = get(name).changed(["dim=32", "augment.views=2", *short])
    train(recipe, tmp_path / "run", data_root=root, workers=0)
    assert len(losses(tmp_path / "run")) >= 2
    assert all(map(math.isfinite, losses(tmp_path / "run")))
    assert any("val/t2i/r_precision" in record for record in logged(tmp_path / "run"))


@pytest.mark.parametrize("name", ["cub-captions", "cub-captions-finetune"])
def test_recipes_with_a_sentence_encoder_train_on_real_photographs(name, tmp_path):
    """All phases and both caches, with ten captions of an image together; a small tower in place of MiniLM."""
    root = small_cub(tmp_path / "cub", real("cub"), captions=10)
    short = [
        f"phases.{number}.{change}"
        for number in range(len(get(name).phases))
        for change in ("epochs=1", "warmup_steps=1")
    ]
    together = ["sampling.captions_per_image=4", "sampling.matches=image", "method.positives=matches"]
    tower = f"caption.parts.1={read_by_a_small_tower(tmp_path / 'bert')}"
    views = ["dim=32", "augment.views=1", "augment.caption_views=2"]
    small = ['image={"kind": "efficientnet-lite"}', "augment.size=64"]
    recipe = get(name).changed([tower, *small, *views, *together, *short])
    model = train(recipe, tmp_path / "run", data_root=root, workers=0)
    assert all(map(math.isfinite, losses(tmp_path / "run")))
    assert any("val/t2i/r_precision" in record for record in logged(tmp_path / "run"))
    assert len(model.encode_captions(["a small brown bird"])) == 1
