"""Evaluation at the size of COCO's test split: every score, both ways, all metrics, one process.

5,000 images and 25,000 captions of D = 1,024, the paper's dimension on COCO (§4.1.2), with labels about as frequent as
COCO's; figures of 5K, of the five folds of 1K, and PMRP. The yardstick is the bare float32 product with as many
multiply-adds as the score takes for a pair (`evaluation.cost`), once for each matrix that has to be computed: one for
both directions, or one for each where the score, or its samples, differ from side to side.
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
    """The model's own score, the analytic match probability, alone in its process."""
    images, captions, rules = coco_shape()
    seconds, found = _timed(scores.create("match_prob"), images, captions, rules)
    peak, note = peak_memory() / 2**30, ", ".join(f"{k} {v:.3f}" for k, v in _shown(found).items())
    what = f"{SHAPE}, R@k, medR, PMRP"
    row = within(what, seconds, _product(images, captions), float("inf"), "")
    note = f"peak memory {peak:.2f} GB (limit 2); 5K, 1K and PMRP of each ζ, query by query: {note}"
    return [Row(**{**row.__dict__, "limit": "< 2 GB", "met": peak < 2, "note": note})]


def bench_every_score() -> list[Row]:
    """All registered scores, one after the other in one process."""
    images, captions, rules = coco_shape()
    product = _product(images, captions)
    rows, ours, bare = [], 0.0, 0.0
    for name in scores.names():
        score = scores.create(name)
        seconds, found = _timed(score, images, captions, rules)
        matrices = 1 if shares_matrix(score, images) else 2
        work = score.cost(captions).work or DIM
        yardstick = product * work / DIM * matrices
        shown = ", ".join(f"{k} {v:.3f}" for k, v in _shown(found).items())
        note = f"{work:,} multiply-adds a pair, {matrices} of 125 M pairs; {shown}"
        row = within(f"evaluate {name}, {SHAPE}", seconds, yardstick, float("inf"), note)
        rows.append(Row(**{**row.__dict__, "limit": "–", "met": None}))
        ours, bare = ours + seconds, bare + yardstick
        print(f"  {name}: {seconds:.1f} s, peak {peak_memory() / 2**30:.2f} GB", file=sys.stderr, flush=True)
    peak = peak_memory() / 2**30
    whole = within(f"evaluate all {len(rows)} scores, {SHAPE}", ours, bare, float("inf"))
    note = f"peak memory {peak:.2f} GB (limit 3), one process"
    return [*rows, Row(**{**whole.__dict__, "limit": "< 3 GB", "met": peak < 3, "note": note})]


def coco_shape() -> tuple[Gaussian, Gaussian, Protocol]:
    """Embeddings that know something of each other, and how they are judged."""
    owner = np.arange(IMAGES * PER_IMAGE) // PER_IMAGE
    images, other = _gaussians(IMAGES, "images"), _gaussians(len(owner), "captions")
    mean = torch.nn.functional.normalize(other.mean + 0.15 * images.mean[owner])
    often = np.concatenate([[0.54], 0.12 * np.arange(1.0, LABELS) ** -0.55])
    labels = numpy_stream(0, "labels").random((IMAGES, LABELS)) < often
    dataset = CaptionDataset.by_image(
        "coco",
        "test",
        Files(Path(), [f"{i}.jpg" for i in range(IMAGES)]),
        [""] * len(owner),
        owner,
        labels=NamedValues(labels.astype(np.int64), tuple(map(str, range(LABELS)))),
    )
    return images, Gaussian(mean, other.log_sigma), protocol(replace(dataset, readings=("1k",)))


def _gaussians(count: int, name: str) -> Gaussian:
    """Unit means and log σ about N(-3.6, 0.3), as a trained model gives them."""
    generator = torch_stream(0, "bench", name)
    mean = torch.nn.functional.normalize(torch.randn(count, DIM, generator=generator))
    return Gaussian(mean, -3.6 + 0.3 * torch.randn(count, DIM, generator=generator))


def _timed(score: Score, images: Gaussian, captions: Gaussian, rules: Protocol) -> tuple[float, Evaluation]:
    begin = time.perf_counter()
    found = evaluate_score(score, images, captions, rules)
    return time.perf_counter() - begin, found


def _product(images: Gaussian, captions: Gaussian) -> float:
    x, y = images.mean, captions.mean
    (seconds,) = best(lambda: [x[i : i + 1000] @ y.T for i in range(0, IMAGES, 1000)], repeats=3)
    return seconds


def _shown(found: Evaluation) -> dict[str, float]:
    names = ("recall@1", "median_rank", "1k recall@1", "pmrp")
    return {f"{way} {n}": found.direction(way).metrics[n] for way in ("t2i", "i2t") for n in names}
