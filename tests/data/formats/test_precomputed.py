import numpy as np
import pytest
import torch

import pcme
from pcme import data, recipes
from pcme.data.formats.precomputed import Precomputed
from pcme.data.problems import Problems
from pcme.errors import ConfigError, DataError, FormatError
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
