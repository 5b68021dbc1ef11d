"""The output of a model's frozen backbone for a dataset's images, computed once and cached.

A frozen backbone is cached as a whole: its features. Of one whose last blocks learn, the maps below
them are cached. The cache is in `$PCME_CACHE`.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from jaxtyping import Float, UInt8
from torch import Tensor, nn

from pcme.core.progress import Progress, silent
from pcme.data.dataset import CaptionDataset
from pcme.data.images.transforms import ImageTransform
from pcme.data.loading.features import FeatureCache, Stage, digest_of_module
from pcme.data.problems import Problems
from pcme.model.model import Model
from pcme.nn.backbone import ImageNetwork


def cache_folder() -> Path:
    """The cache of all runs: $PCME_CACHE, or pcme/ in the user's cache folder."""
    given = os.environ.get("PCME_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(base) / "pcme"


def cached_features(
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
    """The output of the backbone without its last `top` blocks, for every image.

    `view` numbers the draw of a random transform. The model is left in evaluation mode.
    """
    return cached_stages(
        model, dataset, transform, [top], view=view, workers=workers, problems=problems,
        progress=progress,
    )[0]  # fmt: skip


def cached_stages(
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
    """`cached_features` for each of `tops`, the largest first, by running the backbone once."""
    model.images.network.eval()
    return FeatureCache.open_or_compute(
        cache_folder() / "features",
        dataset,
        transform,
        _stages(model, tops),
        view=view,
        workers=workers,
        problems=problems,
        progress=progress,
    )


def _stages(model: Model, tops: Sequence[int]) -> list[Stage]:
    """The backbone in parts, each of which ends below its last `top` blocks."""
    network, stages = model.images.network, []
    for number, top in enumerate(tops):
        frozen = nn.ModuleList(network.blocks()[:-top]) if top else network
        encode = partial(_between, network, tops[number - 1], top) if number else partial(_from_pixels, model, top)
        stages.append(Stage(digest_of_module(frozen), encode))
    return stages


def _from_pixels(model: Model, top: int, pixels: UInt8[Tensor, "b 3 h w"]) -> Float[Tensor, "b ..."]:
    if not top:
        return model.features(pixels)
    return model.images.network.below(model.network_input(pixels), top)


def _between(network: ImageNetwork, before: int, top: int, maps: Float[Tensor, "b c h w"]) -> Float[Tensor, "b ..."]:
    """The output of the blocks from the last `before` to the last `top`, given maps."""
    if not top:
        return network.above(maps, before)
    for block in network.blocks()[-before:-top]:
        maps = block(maps)
    return maps
