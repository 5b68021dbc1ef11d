"""Evaluation at the size of COCO's test split: every score, both directions, all metrics, one process.

There are 5,000 images and 25,000 captions of D = 1,024, the paper's dimension on COCO (§4.1.2), with labels about as
frequent as COCO's. The metrics are those of 5K and of the five folds of 1K, and PMRP. The yardstick is a bare float32
matrix product with as many multiply-adds per pair as the score takes (`Score.cost`). It counts once per matrix that has
to be computed: one matrix serves both directions, unless the score or its samples depend on the side.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from bench.measure import Row, best, peak_memory, within
from pcme import CaptionDataset, Gaussian, scores
from pcme.core.random import numpy_stream, torch_stream
from pcme.data.dataset import NamedValues
from pcme.data.sources import Files
from pcme.evaluation import Evaluation, Protocol, evaluate_score, protocol
from pcme.evaluation.passes import shares_matrix
from pcme.scores import Score

IMAGES, PER_IMAGE, DIM, LABELS = 5_000, 5, 1_024, 80
SHAPE = "5,000 x 25,000 D=1,024, both ways"


def bench_coco_shape() -> list[Row]:
    """The default score, the analytic match probability, alone in its process."""
    images, captions, rules = coco_shape()
    seconds, evaluation = _timed(scores.create("match_prob"), images, captions, rules)
    peak, metrics = peak_memory() / 2**30, _metrics_text(evaluation)
    what = f"{SHAPE}, R@k, medR, PMRP"
    row = within(what, seconds, _product(images, captions), float("inf"), "")
    note = f"peak memory {peak:.2f} GB (limit 2); 5K, 1K and PMRP of each ζ, per query: {metrics}"
    return [Row(**{**row.__dict__, "limit": "< 2 GB", "met": peak < 2, "note": note})]


def bench_every_score() -> list[Row]:
    """All registered scores, one after the other in one process."""
    images, captions, rules = coco_shape()
    product = _product(images, captions)
    rows, our_total, product_total = [], 0.0, 0.0
    for name in scores.names():
        score = scores.create(name)
        seconds, evaluation = _timed(score, images, captions, rules)
        matrices = 1 if shares_matrix(score, images) else 2
        work = score.cost(captions).work or DIM
        yardstick = product * work / DIM * matrices
        note = f"{work:,} multiply-adds per pair, {matrices} of 125 M pairs; {_metrics_text(evaluation)}"
        row = within(f"evaluate {name}, {SHAPE}", seconds, yardstick, float("inf"), note)
        rows.append(Row(**{**row.__dict__, "limit": "–", "met": None}))
        our_total, product_total = our_total + seconds, product_total + yardstick
        print(f"  {name}: {seconds:.1f} s, peak {peak_memory() / 2**30:.2f} GB", file=sys.stderr, flush=True)
    peak = peak_memory() / 2**30
    total = within(f"evaluate all {len(rows)} scores, {SHAPE}", our_total, product_total, float("inf"))
    note = f"peak memory {peak:.2f} GB (limit 3), one process"
    return [*rows, Row(**{**total.__dict__, "limit": "< 3 GB", "met": peak < 3, "note": note})]


def coco_shape() -> tuple[Gaussian, Gaussian, Protocol]:
    """Correlated embeddings of images and captions, and COCO's evaluation protocol."""
    owner = np.arange(IMAGES * PER_IMAGE) // PER_IMAGE
    images, independent = _gaussians(IMAGES, "images"), _gaussians(len(owner), "captions")
    mean = torch.nn.functional.normalize(independent.mean + 0.15 * images.mean[owner])
    frequencies = np.concatenate([[0.54], 0.12 * np.arange(1.0, LABELS) ** -0.55])
    labels = numpy_stream(0, "labels").random((IMAGES, LABELS)) < frequencies
    dataset = CaptionDataset.by_image(
        "coco",
        "test",
        Files(Path(), [f"{i}.jpg" for i in range(IMAGES)]),
        [""] * len(owner),
        owner,
        labels=NamedValues(labels.astype(np.int64), tuple(map(str, range(LABELS)))),
    )
    return images, Gaussian(mean, independent.log_sigma), protocol(replace(dataset, readings=("1k",)))


def _gaussians(count: int, name: str) -> Gaussian:
    """Gaussians like those of a trained model: unit means, log σ from N(-3.6, 0.3)."""
    generator = torch_stream(0, "bench", name)
    mean = torch.nn.functional.normalize(torch.randn(count, DIM, generator=generator))
    return Gaussian(mean, -3.6 + 0.3 * torch.randn(count, DIM, generator=generator))


def _timed(score: Score, images: Gaussian, captions: Gaussian, rules: Protocol) -> tuple[float, Evaluation]:
    begin = time.perf_counter()
    evaluation = evaluate_score(score, images, captions, rules)
    return time.perf_counter() - begin, evaluation


def _product(images: Gaussian, captions: Gaussian) -> float:
    x, y = images.mean, captions.mean
    (seconds,) = best(lambda: [x[i : i + 1000] @ y.T for i in range(0, IMAGES, 1000)], repeats=3)
    return seconds


def _metrics_text(evaluation: Evaluation) -> str:
    """The main metrics as text; it begins with those of t2i."""
    names = ("recall@1", "median_rank", "1k recall@1", "pmrp")
    metrics = {
        f"{direction} {name}": evaluation.direction(direction).metrics[name]
        for direction in ("t2i", "i2t")
        for name in names
    }
    return ", ".join(f"{name} {value:.3f}" for name, value in metrics.items())
