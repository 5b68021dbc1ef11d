"""What several test files need: random embeddings, small pictures, where the real data lies."""

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from pcme import Gaussian
from pcme.cli import app
from pcme.data.dataset import CaptionDataset, NamedValues
from pcme.data.sources import Files

unless_annotations_are_enforced = pytest.mark.skipif(
    any(type(finder).__module__.startswith("jaxtyping") for finder in sys.meta_path),
    reason="beartype objects to the wrong type before the code under test can",
)


@contextmanager
def one_thread():
    """Small networks are no faster with two threads, and sums keep their order."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random_gaussians(n, dim, *, seed, log_sigma=-3.6, spread=0.3, dtype=torch.float32):
    """n Gaussians with unit-norm means and log_sigma ~ N(log_sigma, spread²), one per dimension."""
    g = generator(seed)
    mean = torch.randn(n, dim, generator=g, dtype=torch.float64)
    mean = mean / mean.norm(dim=1, keepdim=True)
    noise = torch.randn(n, dim, generator=g, dtype=torch.float64)
    return Gaussian(mean.to(dtype), (log_sigma + spread * noise).to(dtype))


def picture(path, *, size=(24, 18), colour=(200, 60, 40), **options):
    """Write a small picture with a gradient (so that a turned one is noticed); return its path."""
    width, height = size
    ramp = np.linspace(0, 1, width)[None, :, None] * np.linspace(1, 0.5, height)[:, None, None]
    pixels = (np.asarray(colour, float)[None, None] * ramp).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)
    return path


def real(name):
    """The folder of a real dataset below $PCME_DATA; skips the test when it is not there."""
    base = os.environ.get("PCME_DATA")
    if base is None or not (Path(base) / name).is_dir():
        pytest.skip(f"needs the real dataset: set PCME_DATA to a folder that holds {name}/")
    return Path(base) / name


def real_weights(file):
    """A file of pretrained weights below $PCME_WEIGHTS; skips the test when it is not there."""
    path = Path(os.environ.get("PCME_WEIGHTS", "")) / file
    if not path.is_file():
        pytest.skip(f"needs the weights: set PCME_WEIGHTS to a folder that holds {file}")
    return path


def call(*words, width=100):
    """The outcome of `pcme WORDS` in this process, without colours whatever the machine's settings."""
    plain = CliRunner(env={"FORCE_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": str(width)})
    return plain.invoke(app, [str(word) for word in words])


def printed(*words, width=100):
    """The output of `pcme WORDS`, which must succeed."""
    done = call(*words, width=width)
    assert done.exit_code == 0, done.output
    return done.stdout


def record(*words):
    """The JSON of `pcme WORDS --json`."""
    return json.loads(printed(*words, "--json"))


def refused(*words):
    """The message of `pcme WORDS`, which must be refused, on one line."""
    done = call(*words)
    assert (done.exit_code, "Traceback" in done.output) == (2, False), done.output
    return " ".join(done.stderr.split())


def photos(root, count=10, per_image=3):
    """A dataset of small photographs in three classes, written to `root`."""
    for number in range(count):
        picture(root / f"{number}.jpg", colour=(20 * number, 90, 250 - 20 * number))
    owner = np.repeat(np.arange(count), per_image)
    return CaptionDataset.by_image(
        "photos",
        "train",
        Files(root, [f"{i}.jpg" for i in range(count)]),
        [f"bird number {i}" for i in range(len(owner))],
        owner,
        classes=NamedValues(np.arange(count) % 3, ("a", "b", "c")),
    )
