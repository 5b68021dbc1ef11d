"""Neighbours: a gallery in which every item has been averaged with the items nearest to it.

What an embedding holds of one photograph alone (pose, background, light) differs among neighbours
and cancels; what they share stays. Queries stay as they are: nothing is assumed of other queries.

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
    """Every item as the mean of the `count` items nearest to it by the mean, itself among them.

    Means keep the length they had on average; log σ is averaged too. The spread between
    neighbours is not added to σ: it is what the average is there to remove.

    >>> pairs = Points(torch.tensor([[[1.0, 0.0]], [[0.8, 0.6]], [[-1.0, 0.0]]]))
    >>> averaged(pairs, 2).x[:2, 0]
    tensor([[0.9487, 0.3162],
            [0.9487, 0.3162]])
    """
    if not 1 <= count <= len(gallery):
        raise ConfigError(f"an item has 1 (itself) to {len(gallery)} neighbours in this gallery - got {count}")
    if isinstance(gallery, Points) and gallery.x.shape[1] > 1:
        raise ConfigError(
            f"items with {gallery.x.shape[1]} points each have no one neighbourhood - average one point an item"
        )
    nearest = create("mean").topk(gallery, gallery, k=count).ids
    if isinstance(gallery, Points):
        return Points(_averaged(gallery.x[:, 0], nearest)[:, None])
    means = _averaged(gallery.mean, nearest)
    return Gaussian(means, _mean_of(gallery.log_sigma, nearest))


def _averaged(x: Float[Tensor, "n d"], nearest: Tensor) -> Float[Tensor, "n d"]:
    """The averages, as long as the items they are made of were on average."""
    lengths = _mean_of(x.norm(dim=1, keepdim=True), nearest)
    return F.normalize(_mean_of(x, nearest), dim=1) * lengths


def _mean_of(x: Float[Tensor, "n d"], nearest: Tensor) -> Float[Tensor, "n d"]:
    parts = [x[rows].mean(1) for rows in nearest.to(x.device).split(BLOCK)]
    return torch.cat(parts)
