"""`pcme demo`: the core at work on a small world whose every match is known, in a few seconds.

Twelve attributes are directions in space; an image has a value for each, a caption mentions some
and leaves the rest open. The Gaussians are made by hand, nothing is learnt: a caption is narrow
along what it says and wide along what it does not, so the generic one is the widest and fits all.
"""

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from pcme import Gaussian, Matches, Ranking, metrics, scores

ATTRIBUTES, IMAGES, CAPTIONS = 12, 400, 300
NOISE, OPEN = 0.5, 1.0
"""σ of an attribute that is seen or said, and of one left open."""


def main() -> None:
    """Build the world, rank it with every score, and show how sure the captions are."""
    images, captions, matches = world(seed=0)
    console = Console()
    console.print(_ranking_table(images, captions, matches))
    console.print(_uncertainty_table(images, captions, matches))


def world(*, seed: int) -> tuple[Gaussian, Gaussian, Matches]:
    """(images, captions, the true matches captions × images)."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2, (IMAGES, ATTRIBUTES)) * 2 - 1
    said = rng.permuted(np.arange(ATTRIBUTES) < rng.integers(0, 7, (CAPTIONS, 1)), axis=1)
    subject = values[rng.integers(0, IMAGES, CAPTIONS)]
    fits = ((values[None] == subject[:, None]) | ~said[:, None]).all(-1)
    noise = rng.normal(0, NOISE, values.shape)
    images = Gaussian(_tensor(values + noise), torch.full(values.shape, np.log(NOISE)))
    captions = Gaussian(_tensor(subject * said), _tensor(np.log(np.where(said, NOISE, OPEN))))
    return images, captions, Matches.from_dense(fits)


def _ranking_table(images: Gaussian, captions: Gaussian, matches: Matches) -> Table:
    table = Table(
        title=f"{len(captions)} captions searched among {len(images)} images", min_width=76
    )
    for column in ("score", "R@1", "R-Precision", "MAP@R"):
        table.add_column(column, justify="left" if column == "score" else "right")
    for name in scores.names():
        ranking = Ranking.from_scores(scores.create(name)(captions, images))
        columns = (
            metrics.recall(ranking, matches, 1),
            metrics.r_precision(ranking, matches),
            metrics.map_at_r(ranking, matches),
        )
        table.add_row(name, *(f"{100 * np.nanmean(values):.1f}" for values in columns))
    chance = f"{100 * float(np.nanmean(metrics.chance(matches))):.1f}"
    table.add_row("(chance)", "", chance, "", style="dim")
    return table


def _uncertainty_table(images: Gaussian, captions: Gaussian, matches: Matches) -> Table:
    precision = metrics.r_precision(scores.create("overlap")(captions, images), matches)
    mentioned = (captions.log_sigma < 0).sum(1)
    title = "A caption that says less is wider, and fits more images"
    table = Table(title=title, min_width=76)
    for column in ("attributes said", "captions", "sigma", "images that fit", "R-P (overlap)"):
        table.add_column(column, justify="right")
    for count in range(int(mentioned.max()) + 1):
        rows = (mentioned == count).numpy()
        table.add_row(
            str(count),
            str(int(rows.sum())),
            f"{float(captions.uncertainty()[rows].mean()):.3f}",
            f"{matches.counts[rows].mean():.1f}",
            f"{100 * np.nanmean(precision[rows]):.1f}",
        )
    return table


def _tensor(values: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.float32)
