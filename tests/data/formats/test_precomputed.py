import numpy as np
import pytest
import torch

import pcme
from pcme import data, recipes
from pcme.data.formats.precomputed import Precomputed
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError, FormatError, PcmeError
from pcme.evaluation import embed
from pcme.training import train
from tests.training.trained import losses

pytestmark = pytest.mark.usefixtures("one_thread")


def save(folder, images, captions, owners):
    folder.mkdir(parents=True)
    for name, values in (("images", images), ("captions", captions), ("owners", owners)):
        np.save(folder / f"{name}.npy", values)


def vectors(root, *, images=12, per_image=2, sites=()):
    """Captions are their image's vector of six numbers with some noise."""
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        pictures = rng.normal(size=(images, *sites, 6)).astype(np.float32)
        owners = np.repeat(np.arange(images), per_image)
        texts = pictures.reshape(images, -1, 6).mean(1)[owners]
        save(root / split, pictures, (texts + 0.05 * rng.normal(size=texts.shape)).astype(np.float16), owners)
    return root


def changed(*changes, features=6):
    """The recipe for vectors of this width."""
    return recipes.get("vectors").changed([f"image.features={features}", f"caption.features={features}", *changes])


def test_a_folder_is_recognised_and_read(tmp_path):
    dataset = data.find(vectors(tmp_path))
    assert isinstance(dataset, Precomputed)
    assert dataset.splits == ("train", "val")
    loaded = dataset.load("val")
    assert (len(loaded.images), len(loaded.captions)) == (12, 24)
    assert loaded.image_vectors.row(3).shape == (1, 6)
    assert isinstance(loaded.image_vectors.values, np.memmap)
    assert loaded.matches().counts.tolist() == [1] * 24
    part = loaded.subset([5, 2])
    assert torch.equal(part.image_vectors.row(0), loaded.image_vectors.row(5))
    assert torch.equal(part.caption_vectors.row(2), loaded.caption_vectors.row(4))
    assert len(part.caption_vectors) == 4


@pytest.mark.parametrize("sites", [(), (3,)])
def test_heads_learn_on_vectors_and_a_saved_model_embeds_them_alike(tmp_path, sites):
    root = vectors(tmp_path / "data", images=40, sites=sites)
    recipe = changed("dim=8", "means=learned", "phases.0.epochs=30", "sampling.batch_size=20")
    trained = train(recipe, tmp_path / "run", data_root=root)
    assert np.mean(losses(tmp_path / "run")[-5:]) < 0.8 * np.mean(losses(tmp_path / "run")[:5])
    split = Precomputed(root).load("val")
    loaded = pcme.load(tmp_path / "run" / "last")
    left, right = (embed(model, split, Problems()) for model in (trained, loaded))
    assert torch.equal(left.images.mean, right.images.mean)
    assert torch.equal(left.captions.log_sigma, right.captions.log_sigma)
    assert len(right.captions) == 80


def test_vectors_that_agree_still_do_with_sigma_on_top(tmp_path):
    """The two sides lie far apart as wholes, and there is little to learn from, as with CLIP's."""
    g = np.random.default_rng(0)
    basis, apart = g.standard_normal((16, 32)) / 4, g.standard_normal((2, 32))
    sides = {}
    for split, count in (("train", 20), ("val", 60)):
        owners = np.repeat(np.arange(count), 2)
        meant = g.standard_normal((count, 16)) @ basis
        seen = meant + 0.4 * g.standard_normal((count, 32)) + apart[0]
        told = meant[owners] + 0.4 * g.standard_normal((2 * count, 32)) + apart[1]
        sides[split] = [side.astype(np.float32) for side in (seen, told)]
        save(tmp_path / "data" / split, *sides[split], owners)
    x, y = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides["val"])
    by_cosine = ((y @ x.T).argmax(1) == owners).mean()

    def found(means):
        changes = ("dim=32", f"means={means}", "sampling.batch_size=20", "validation.every_epochs=20")
        recipe = changed(*changes, features=32)
        model = train(recipe, tmp_path / means, data_root=tmp_path / "data")
        split = embed(model, Precomputed(tmp_path / "data").load("val"), Problems())
        rows = model.score().blocks(split.captions, split.images)
        return (torch.cat([block.argmax(1) for _, block in rows]).numpy() == owners).mean()

    assert found("given") > by_cosine - 0.1 > found("learned") + 0.1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["image.features=7"], "image.features=6"),
        (['caption={"kind": "gru"}'], "caption.kind"),
        ([], "Set dim=6"),
        (["dim=6", 'method={"kind": "vse0"}'], '"vse0" has none'),
    ],
)
def test_recipes_that_do_not_take_the_vectors_or_learn_nothing_are_refused(tmp_path, changes, said):
    with pytest.raises(ConfigError, match=said):
        train(changed(*changes), tmp_path / "run", data_root=vectors(tmp_path / "data"))


def test_pixels_where_vectors_are_wanted_are_refused(tmp_path):
    recipe = recipes.get("aviary-tiny").changed(['image={"kind": "precomputed", "features": 4}'])
    with pytest.raises(ConfigError, match="no vectors"):
        train(recipe, tmp_path)


@pytest.mark.parametrize(
    ("name", "values", "error", "said"),
    [
        ("images.npy", np.full((12, 6), np.nan, np.float32), DataError, "row 0"),
        ("images.npy", np.zeros((12, 6), np.int64), FormatError, "real numbers"),
        ("captions.npy", np.zeros(24, np.float32), FormatError, "shape"),
        ("owners.npy", np.zeros(23, np.int64), FormatError, "24 integers"),
        ("owners.npy", np.full(24, 0.5), FormatError, "24 integers"),
        ("owners.npy", np.full(24, 12), FormatError, "from 0 to 11"),
        ("images.npy", np.array([{"a": 1}], dtype=object), FormatError, "not a NumPy file"),
    ],
)
def test_files_that_make_no_sense_are_named(tmp_path, name, values, error, said):
    root = vectors(tmp_path)
    np.save(root / "train" / name, values, allow_pickle=True)
    with pytest.raises(error, match=said):
        Precomputed(root).load("train")


def test_without_owners_captions_belong_to_the_image_of_their_row(tmp_path):
    for per_image in (1, 2):
        root = vectors(tmp_path / str(per_image), per_image=per_image)
        (root / "train" / "owners.npy").unlink()
    assert Precomputed(tmp_path / "1").load("train").caption_image.tolist() == list(range(12))
    with pytest.raises(DataError, match=r"owners.npy is missing"):
        Precomputed(tmp_path / "2").load("train")


def test_captions_are_shown_where_they_are_known(tmp_path):
    root = vectors(tmp_path, per_image=1)
    (root / "val" / "captions.txt").write_text("\n".join(f"caption {i}" for i in range(12)) + "\n")
    assert Precomputed(root).load("val").captions[3] == "caption 3"
    (root / "val" / "captions.txt").write_text("only one\n")
    with pytest.raises(FormatError, match=r"captions.txt.*got 1"):
        Precomputed(root).load("val")


COLOURS = ("red", "green", "blue", "white", "black", "yellow")


def regions(root, *, images=12, per_image=2, shape=(3, 6)):
    """Regions of which one is large in the feature whose colour the captions name; no vectors of captions."""
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        values = rng.normal(size=(images, *shape)).astype(np.float32)
        colours = np.arange(images) % len(COLOURS)
        values.reshape(images, -1, 6)[np.arange(images), 0, colours] += 6
        owners = np.repeat(np.arange(images), per_image)
        (root / split).mkdir(parents=True)
        np.save(root / split / "images.npy", values)
        np.save(root / split / "owners.npy", owners)
        texts = [f"a {COLOURS[colours[owner]]} bird, number {row}" for row, owner in enumerate(owners)]
        (root / split / "captions.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return root


def with_words(*changes):
    """The recipe for regions, of this size."""
    small = ["dim=16", "image.features=6", "words.dim=5", "words.min_count=1", "sampling.batch_size=12"]
    method = 'method={"kind": "vsrn", "layers": 2, "caption_hidden": 8, "caption_words": 5}'
    return recipes.get("regions").changed([*small, method, "phases.0.learning_rate=0.02", *changes])


def test_regions_are_paired_with_words(tmp_path):
    dataset = data.find(regions(tmp_path))
    assert isinstance(dataset, Precomputed)
    loaded = dataset.load("val")
    assert loaded.caption_vectors is None
    assert loaded.captions[3] == "a green bird, number 3"
    assert loaded.image_vectors.row(3).shape == (3, 6)
    assert loaded.subset([5, 2]).captions[0] == "a yellow bird, number 10"


@pytest.mark.parametrize("kind", ["vsrn", "vsrn-aoq"])
def test_vsrn_learns_on_regions_and_words_and_a_saved_model_embeds_them_alike(tmp_path, kind):
    root = regions(tmp_path / "data", images=24)
    recipe = with_words(f"method.kind={kind}", "phases.0.epochs=20", "validation.every_epochs=20")
    model = train(recipe, tmp_path / "run", data_root=root)
    split = Precomputed(root).load("val")
    loaded = pcme.load(tmp_path / "run" / "last")
    left, right = (embed(each, split, Problems()) for each in (model, loaded))
    assert torch.equal(left.images.x, right.images.x)
    assert torch.equal(left.captions.x, right.captions.x)
    found = model.score()(left.captions, left.images).argmax(1).numpy()
    assert (found % len(COLOURS) == split.caption_image % len(COLOURS)).mean() > 0.5, "1 / 6 by chance"


@pytest.mark.parametrize(
    ("changes", "shape", "said"),
    [
        ([], (6,), r"at least 2 regions per image, got 1.*Give features \[n, regions, d\]"),
        (['caption={"kind": "precomputed", "features": 6}'], (3, 6), r"has no vectors for its captions"),
        (["image.features=7"], (3, 6), r"image.features=6"),
    ],
)
def test_regions_that_a_recipe_does_not_take_are_refused(tmp_path, changes, shape, said):
    with pytest.raises(PcmeError, match=said):
        train(with_words(*changes), tmp_path / "run", data_root=regions(tmp_path / "data", shape=shape))


def test_vsrn_on_vectors_of_captions_is_refused(tmp_path):
    root = vectors(tmp_path / "data", sites=(3,))
    with pytest.raises(ConfigError, match=r"caption_weight: needs captions that are words.*method.caption_weight=0"):
        train(with_words('caption={"kind": "precomputed", "features": 6}'), tmp_path / "run", data_root=root)


def test_images_of_four_axes_or_without_captions_and_empty_captions_are_named(tmp_path):
    root = regions(tmp_path)
    (root / "train" / "captions.txt").write_text("a bird\n...\n" + "a bird\n" * 22)
    with pytest.raises(DataError, match=r"captions.txt: line 2 must be a caption"):
        Precomputed(root).load("train")
    (root / "train" / "captions.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError, match=r"captions.txt: must be text in UTF-8"):
        Precomputed(root).load("train")
    (root / "train" / "captions.txt").unlink()
    with pytest.raises(DataError, match=r"train: has no captions.*captions.txt"):
        Precomputed(root).load("train")
    np.save(root / "val" / "images.npy", np.zeros((12, 2, 3, 6), np.float32))
    with pytest.raises(FormatError, match=r"shape \[n, d\] or \[n, s, d\], got float32 \[12, 2, 3, 6\]"):
        Precomputed(root).load("val")
