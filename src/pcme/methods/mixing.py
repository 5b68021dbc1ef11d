"""Mixing: images of two pairs in one, and the share of it that each caption is true of.

Mixup (Zhang et al. 2018) and CutMix (Yun et al. 2019), as PCME++ uses them: image by image, each with that of the same
row counted from the end of the batch.
"""

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from pcme.methods.pairs import Images

Image = Shaped[Tensor, "..."]
CUT = 0.5
"""The share of mixed images that are cut and pasted rather than blended."""


def mix(
    images: Images, targets: Float[Tensor, "b c"], generator: np.random.Generator, *, share: float, alpha: float
) -> tuple[Images, Float[Tensor, "b c"]]:
    """Copies with a share of the images mixed, and the targets mixed alike.

    The other image's share is drawn from Beta(alpha, alpha), and is less where a rectangle would stick out. Pixels
    [b,3,h,w] are blended to the nearest grey level. Features [b,s,d] are mixed by sites instead of pixels.

    >>> black_and_white = torch.tensor([0, 255], dtype=torch.uint8)[:, None, None, None]
    >>> images = black_and_white.expand(2, 3, 4, 4)
    >>> generator = np.random.default_rng(2)
    >>> mixed, targets = mix(images, torch.eye(2), generator, share=1.0, alpha=2.0)
    >>> torch.allclose(mixed.float().mean((1, 2, 3)) / 255, targets[:, 1], atol=0.01)
    True
    """
    mixed, others = images.clone(), images.flip(0)
    theirs = torch.zeros(len(images), 1)
    for row in np.flatnonzero(generator.random(len(images)) < share).tolist():
        ratio = float(generator.beta(alpha, alpha))
        how = _cut if generator.random() < CUT else _blend
        mixed[row], theirs[row] = how(images[row], others[row], ratio, generator)
    return mixed, torch.lerp(targets, targets.flip(0), theirs.to(targets))


def _blend(a: Image, b: Image, ratio: float, generator: np.random.Generator) -> tuple[Image, float]:
    if a.is_floating_point():
        return torch.lerp(a, b, ratio), ratio
    return torch.lerp(a.float(), b.float(), ratio).round().to(a.dtype), ratio


def _cut(a: Image, b: Image, ratio: float, generator: np.random.Generator) -> tuple[Image, float]:
    """A rectangle of pixels, or as many sites anywhere, from b, and its share; a single site is blended."""
    pasted = a.clone()
    if a.ndim == 3:
        rows, columns = (_side(length, ratio, generator) for length in a.shape[1:])
        pasted[:, rows, columns] = b[:, rows, columns]
        return pasted, pasted[0, rows, columns].numel() / a[0].numel()
    if len(a) == 1:
        return _blend(a, b, ratio, generator)
    sites = generator.permutation(len(a))[: round(ratio * len(a))]
    pasted[sites] = b[sites]
    return pasted, len(sites) / len(a)


def _side(length: int, ratio: float, generator: np.random.Generator) -> slice:
    """A side of the rectangle: its middle is anywhere, and what sticks out is left out, so it is mostly smaller."""
    half, middle = int(length * ratio**0.5) // 2, int(generator.integers(length))
    return slice(max(0, middle - half), min(length, middle + half))
