"""The data pipeline: the loader against bare decoding; Aviary's images, captions and ground truth."""

import os
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from bench.measure import Row, best, faster, within
from pcme.data.aviary.dataset import Aviary
from pcme.data.dataset import CaptionDataset
from pcme.data.images.transforms import ImageTransform
from pcme.data.loading.batches import Loader
from pcme.data.loading.samplers import ShuffledPairs
from pcme.data.sources import Files
from pcme.data.text.tokens import Vocab

WORKERS = 2
BATCH = 32
PHOTOS = 128


def bench_loader() -> list[Row]:
    """Batches of 224 px, against bare decoding of the same files with equally many threads."""
    rows = []
    for width, height, count in ((640, 480, PHOTOS), (1280, 960, PHOTOS // 2)):
        with tempfile.TemporaryDirectory() as folder:
            photos = photographs(Path(folder), count, (width, height))
            rows += _against_decoding(f"{width:,} x {height}", photos, limit=1.25)
    flickr = Path(os.environ.get("PCME_DATA", "")) / "flickr8k" / "images"
    if "PCME_DATA" in os.environ and flickr.is_dir():
        rows += _against_decoding("Flickr8k, short side 224", sorted(flickr.glob("*.jpg"))[:PHOTOS])
    return rows


def bench_aviary() -> list[Row]:
    """Draw images and write captions in one thread; load the ground truth of a million images."""
    dataset = Aviary().load("test")
    (drawing,) = best(lambda: [dataset.images.load(i) for i in range(100)], repeats=5)
    rng = np.random.default_rng(0)
    writer = dataset.writer
    assert writer is not None
    (writing,) = best(lambda: [writer.write(dataset.facts[i], rng) for i in range(1000)], repeats=5)
    begin = time.perf_counter()
    million = Aviary(test_species=1000, test_images=1000, captions_per_image=1).load("test")
    loading = time.perf_counter() - begin
    return [
        faster("aviary: one image, against 1 ms", drawing / 100, 1e-3, 1, "64 px, one thread"),
        faster("aviary: one caption, against 50 µs", writing / 1000, 50e-6, 1, "one thread"),
        within(
            "aviary: a million images and captions loaded, against 10 s",
            loading,
            10,
            1,
            f"{len(million.images):,} images, none drawn until asked for",
        ),
    ]


def photographs(folder: Path, count: int, size: tuple[int, int]) -> list[Path]:
    """JPEGs with the grain of a photograph. At 640 x 480 their files are about as large as COCO's."""
    width, height = size
    aviary = Aviary(pixels=480, test_species=count, test_images=1).load("test")
    rng = np.random.default_rng(0)
    paths = []
    for index in range(count):
        scene = np.asarray(aviary.images.load(index).resize(size), np.int16)
        grain = rng.normal(0, 26, (height // 2, width // 2, 1)).repeat(2, 0).repeat(2, 1)
        path = folder / f"{index}.jpg"
        Image.fromarray(np.clip(scene + grain, 0, 255).astype(np.uint8)).save(path, quality=90)
        paths.append(path)
    return paths


def _against_decoding(what: str, paths: list[Path], limit: float = float("inf")) -> list[Row]:
    torch.set_num_threads(1)  # the workers are the only threads
    rows = []
    for name, transform in (
        ("random-resized crop, flip, cutout", ImageTransform.training()),
        ("centre crop", ImageTransform.evaluation()),
    ):
        loader = _loader(paths, transform)
        ours, bare = best(
            lambda: sum(map(len, loader.epoch(0))),  # noqa: B023
            lambda: _decode_all(paths),
            repeats=30,
            seconds=40,
        )
        kilobytes = sum(path.stat().st_size for path in paths) / len(paths) / 1e3
        note = (
            f"{len(paths) / ours:,.0f} images/s, {bare / ours:.0%} of bare Pillow decoding with "
            f"{WORKERS} threads; {kilobytes:.0f} kB per file"
        )
        rows.append(within(f"loader, {what}, {name}", ours, bare, limit, note))
    return rows


def _loader(paths: list[Path], transform: ImageTransform) -> Loader:
    owner = np.arange(len(paths))
    captions = [f"a photograph with the number {i}" for i in owner]
    images = Files(paths[0].parent, [path.name for path in paths])
    dataset = CaptionDataset.by_image("bench", "train", images, captions, owner)
    sampler = ShuffledPairs(dataset, BATCH, seed=0)
    return Loader(dataset, sampler, Vocab.build(captions), transform, seed=0, word_drop=0.1, workers=WORKERS)


def _decode_all(paths: list[Path]) -> None:
    chunks = [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(_decode, chunks))


def _decode(paths: Iterable[Path]) -> None:
    for path in paths:
        with Image.open(path) as image:
            image.convert("RGB")
