"""The output of a model's frozen networks for images and captions, computed once and cached in `$PCME_CACHE`.

A frozen image backbone is cached as a whole: its features. Of one whose last blocks learn, the maps below them are
cached. A frozen text tower is cached as a whole: the last hidden states of its tokens.
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
from pcme.data.loading.caption_states import CaptionStates, Encoder
from pcme.data.loading.features import FeatureCache, Stage, digest_of_module
from pcme.data.problems import Problems
from pcme.data.text.tokens import Tokens
from pcme.model.model import Model
from pcme.nn.backbone import ImageNetwork, TextTower


def cache_folder() -> Path:
    """The cache of all runs: $PCME_CACHE, or pcme/ in the user's cache folder."""
    if folder := os.environ.get("PCME_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pcme"


def cached_features(
    model: Model,
    dataset: CaptionDataset,
    transform: ImageTransform,
    *,
    top: int = 0,
    ahead: Sequence[int] = (),
    view: int | None = None,
    workers: int = 2,
    problems: Problems | None = None,
    progress: Progress = silent,
) -> FeatureCache:
    """The output of the backbone without its last `top` blocks, for every image.

    The backbone runs once: its outputs for the larger numbers of blocks in `ahead`, in falling order, are cached too.
    `view` numbers the draw of a random transform. The model is left in evaluation mode.
    """
    network, tops = model.images.network.eval(), [*ahead, top]
    stages = []
    for before, after in zip([None, *ahead], tops, strict=True):
        frozen = nn.ModuleList(network.blocks()[:-after]) if after else network
        first = partial(_from_pixels, model, after)
        encode = first if before is None else partial(_between, network, before, after)
        stages.append(Stage(digest_of_module(frozen), encode))
    return FeatureCache.open_or_compute(
        cache_folder() / "features", dataset, transform, stages, view=view, workers=workers, problems=problems,
        progress=progress,
    )[-1]  # fmt: skip


def cached_states(
    model: Model, sentences: Sequence[Sequence[str]], *, progress: Progress = silent
) -> list[CaptionStates]:
    """What each text tower of the caption network makes of captions given as words.

    The model is left in evaluation mode.
    """
    network, tokens = model.captions.words.eval(), model.tokeniser.encode_batch(sentences)
    return [
        CaptionStates.open_or_compute(
            cache_folder() / "captions",
            own,
            Encoder(digest_of_module(tower), tower.features, partial(_states, model, tower)),
            progress=progress,
        )
        for tower, own in zip(network.towers(), network.tower_inputs(tokens), strict=True)
    ]


def _states(model: Model, tower: TextTower, tokens: Tokens) -> Float[Tensor, "b l d"]:
    return tower.states(tokens.ids.to(model.device), tokens.lengths)


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
