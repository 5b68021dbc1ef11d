"""What the held part of a model's backbone makes of a dataset's images, computed once and kept.

A frozen backbone is held as a whole, and its features are kept; one whose last blocks learn is held
up to those, and the maps that they take are kept. `$PCME_CACHE` says where.
"""

import os
from collections.abc import Callable
from pathlib import Path

from jaxtyping import Float, UInt8
from torch import Tensor, nn

from pcme.data.dataset import CaptionDataset
from pcme.data.features import FeatureCache, digest_of_module
from pcme.data.problems import Problems
from pcme.data.transforms import ImageTransform, normalise
from pcme.model import Model

__all__ = ["cache_folder", "kept"]


def cache_folder() -> Path:
    """Where features are kept for all runs: $PCME_CACHE, or pcme/ in the user's cache folder."""
    given = os.environ.get("PCME_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(base) / "pcme"


def kept(
    model: Model,
    dataset: CaptionDataset,
    transform: ImageTransform,
    *,
    top: int = 0,
    view: int | None = None,
    workers: int = 2,
    problems: Problems | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> FeatureCache:
    """What the backbone, but for its last `top` blocks, makes of every image.

    `view` numbers the draw of a random transform. The model is left in evaluation mode.
    """
    network = model.images.network.eval()

    def encode(pixels: UInt8[Tensor, "b 3 h w"]) -> Float[Tensor, "b ..."]:
        inputs = normalise(pixels.to(model.device), network.mean, network.std)
        return network.below(inputs, top) if top else network(inputs)

    held = nn.ModuleList(network.blocks()[:-top]) if top else network
    return FeatureCache.open_or_compute(
        cache_folder() / "features",
        dataset,
        transform,
        encode,
        backbone=digest_of_module(held),
        view=view,
        workers=workers,
        problems=problems,
        progress=progress,
    )
