"""The folder in which the documentation's commands run: a tiny model, photographs, vectors."""

import shutil
import sys
from dataclasses import fields

import numpy as np
import pytest

from pcme import analysis, methods, scores
from pcme.core import plugins
from pcme.data.aviary.dataset import Aviary
from pcme.data.layout import registry as datasets
from pcme.nn.backbone import caption_backbones, image_backbones
from pcme.reproduce import registry as experiments
from tests.stored.opened import FILES

REGISTRIES = (scores.registry, methods.registry, analysis.registry, datasets, image_backbones, caption_backbones)

SMALL = {
    "pixels": 16, "captions_per_image": 4, "train_species": 24,
    "val_species": 12, "val_images": 4, "test_species": 9, "test_images": 5,
}  # fmt: skip
PLACES = ("Oslo", "Bergen", "Narvik")


@pytest.fixture(autouse=True)
def _small_aviary(monkeypatch):
    """Aviary without parameters is a small one here."""
    small = tuple(SMALL.get(field.name, field.default) for field in fields(Aviary))
    monkeypatch.setattr(Aviary.__init__, "__defaults__", small)


@pytest.fixture(autouse=True)
def _no_plugins(monkeypatch):
    """Plugins of a page are forgotten after it."""
    monkeypatch.setenv(plugins.VARIABLE, "")
    yield
    experiments._classes.pop("inclusion", None)  # of a page, not of a plugin
    for known in REGISTRIES:
        for name, kind in list(known._classes.items()):
            if kind.__module__ in plugins._files:
                del known._classes[name]
    for module in plugins._files:
        sys.modules.pop(module, None)
    plugins._files.clear()


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("documentation")
    for run in ("aviary", "demo", "pcme"):
        shutil.copytree(FILES / "model", folder / "runs" / run)
    write_photos(folder)
    write_vectors(folder)
    write_given(folder)
    (folder / "queries.txt").write_text("a small red bird\na bird with a long tail\n")
    return folder


def write_vectors(folder):
    """The layout `precomputed`, one file of vectors, and one query."""
    rng = np.random.default_rng(0)
    for split, images in (("train", 24), ("val", 12)):
        (target := folder / "vectors" / split).mkdir(parents=True)
        vectors = rng.standard_normal((images, 8)).astype(np.float32)
        owners = np.arange(images).repeat(2)
        np.save(target / "images.npy", vectors)
        np.save(target / "captions.npy", vectors[owners])
        np.save(target / "owners.npy", owners)
    np.save(folder / "vectors.npy", rng.standard_normal((20, 8)).astype(np.float32))
    np.save(folder / "query.npy", rng.standard_normal(8).astype(np.float32))


def write_given(folder):
    """What another program made of the photographs: embeddings, scores, and the ids of their rows."""
    rng = np.random.default_rng(1)
    images = [f"{number:02d}.png" for number in range(12)]
    captions = [f"{name}#{number}" for name in images for number in range(2)]
    for name, ids in (("images", images), ("captions", captions)):
        np.save(folder / f"{name}.npy", rng.standard_normal((len(ids), 8)).astype(np.float32))
        (folder / f"{name}.txt").write_text("\n".join(ids) + "\n")
    np.save(folder / "scores.npy", rng.standard_normal((len(images), len(captions))).astype(np.float32))


def write_photos(folder):
    """Drawn birds as PNG files with captions beside them, and a table of metadata."""
    split = Aviary(pixels=32, test_species=12, test_images=1, captions_per_image=2).load("test")
    photos, rows = folder / "photos", ["id,year,place"]
    photos.mkdir()
    for number in range(len(split.images)):
        split.images.load(number).save(photos / f"{number:02d}.png")
        captions = split.captions[2 * number : 2 * number + 2]
        (photos / f"{number:02d}.txt").write_text("\n".join(captions) + "\n")
        rows.append(f"{number:02d}.png,{1999 + number},{PLACES[number % 3]}")
    (folder / "photos.csv").write_text("\n".join(rows) + "\n")
    split.images.load(0).save(folder / "photo.jpg")
