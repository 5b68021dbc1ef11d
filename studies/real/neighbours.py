"""Neighbours: a gallery in which every item is averaged with the items nearest to it.

What belongs to one photograph alone (pose, background, light) differs among neighbours and cancels.
What neighbours share stays. Queries are not averaged, so each is answered without the others.

Known in image retrieval as database-side feature augmentation (Turcot & Lowe 2009; Arandjelović &
Zisserman 2012). Not in the paper.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import ConfigError
from pcme.scores import create

__all__ = ["averaged"]

BLOCK = 4096
"""How many items are averaged at a time."""


def averaged(gallery: Embedding, count: int) -> Embedding:
    """Every item as the mean of the `count` items whose means are nearest, itself included.

    A new mean has the average length of those it was averaged from. log σ is averaged too. The spread
    between neighbours is not added to σ, because averaging is meant to remove it.

    >>> pairs = Points(torch.tensor([[[1.0, 0.0]], [[0.8, 0.6]], [[-1.0, 0.0]]]))
    >>> averaged(pairs, 2).x[:2, 0]
    tensor([[0.9487, 0.3162],
            [0.9487, 0.3162]])
    """
    if not 1 <= count <= len(gallery):
        raise ConfigError(f"count: must be 1 (the item itself) to {len(gallery)} (the gallery), got {count}.")
    if isinstance(gallery, Points) and gallery.x.shape[1] > 1:
        raise ConfigError(
            f"gallery: items with several points have no single neighbourhood, got {gallery.x.shape[1]} points per "
            "item. Give one point per item."
        )
    nearest = create("mean").topk(gallery, gallery, k=count).ids
    if isinstance(gallery, Points):
        return Points(_averaged(gallery.x[:, 0], nearest)[:, None])
    means = _averaged(gallery.mean, nearest)
    return Gaussian(means, _mean_of(gallery.log_sigma, nearest))


def _averaged(x: Float[Tensor, "n d"], nearest: Tensor) -> Float[Tensor, "n d"]:
    """Averages over the nearest items, with the average length of these items."""
    lengths = _mean_of(x.norm(dim=1, keepdim=True), nearest)
    return F.normalize(_mean_of(x, nearest), dim=1) * lengths


def _mean_of(x: Float[Tensor, "n d"], nearest: Tensor) -> Float[Tensor, "n d"]:
    parts = [x[rows].mean(1) for rows in nearest.to(x.device).split(BLOCK)]
    return torch.cat(parts)
