"""What the held part of a model's backbone makes of a dataset's images, computed once and kept.

A frozen backbone is held as a whole, and its features are kept; one whose last blocks learn is held
up to those, and the maps that they take are kept. `$PCME_CACHE` says where.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from pcme.core.progress import Progress, silent
from pcme.data.dataset import CaptionDataset
from pcme.data.images.transforms import ImageTransform, normalise
from pcme.data.loading.features import FeatureCache, Stage, digest_of_module
from pcme.data.problems import Problems
from pcme.model.model import Model
from pcme.nn.backbone import ImageNetwork

__all__ = ["cache_folder", "kept", "kept_below"]


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
    progress: Progress = silent,
) -> FeatureCache:
    """What the backbone, but for its last `top` blocks, makes of every image.

    `view` numbers the draw of a random transform. The model is left in evaluation mode.
    """
    (found,) = kept_below(
        model, dataset, transform, [top], view=view, workers=workers, problems=problems,
        progress=progress,
    )  # fmt: skip
    return found


def kept_below(
    model: Model,
    dataset: CaptionDataset,
    transform: ImageTransform,
    tops: Sequence[int],
    *,
    view: int | None = None,
    workers: int = 2,
    problems: Problems | None = None,
    progress: Progress = silent,
) -> list[FeatureCache]:
    """`kept` for each of `tops`, of which the largest comes first, by running the backbone once."""
    network = model.images.network.eval()
    return FeatureCache.open_or_compute_all(
        cache_folder() / "features",
        dataset,
        transform,
        _stages(network, tops, model.device),
        view=view,
        workers=workers,
        problems=problems,
        progress=progress,
    )


def _stages(network: ImageNetwork, tops: Sequence[int], device: torch.device) -> list[Stage]:
    """The backbone in parts, each of which ends below its last `top` blocks."""
    stages = []
    for number, top in enumerate(tops):
        held = nn.ModuleList(network.blocks()[:-top]) if top else network
        encode = (
            partial(_between, network, tops[number - 1], top)
            if number
            else partial(_from_pixels, network, top, device)
        )
        stages.append(Stage(digest_of_module(held), encode))
    return stages


def _from_pixels(
    network: ImageNetwork, top: int, device: torch.device, pixels: UInt8[Tensor, "b 3 h w"]
) -> Float[Tensor, "b ..."]:
    inputs = normalise(pixels.to(device), network.mean, network.std)
    return network.below(inputs, top) if top else network(inputs)


def _between(
    network: ImageNetwork, before: int, top: int, maps: Float[Tensor, "b c h w"]
) -> Float[Tensor, "b ..."]:
    """What the blocks from the last `before` to the last `top` make of maps."""
    if not top:
        return network.above(maps, before)
    for block in network.blocks()[-before:-top]:
        maps = block(maps)
    return maps
