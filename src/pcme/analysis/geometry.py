"""How Gaussians lie to one another: how much one covers of another, and a view of it in the plane.

    cover(A in B) = mean over d of P(|x − μ_B| ≤ 1.96 σ_B),  x ~ N(μ_A, σ_A²)

It is .95 for A = B, grows to 1 as A shrinks within B, and falls as A leaves B; A lies in B when cover(A in B) >
cover(B in A). The mass in the D-dimensional 95 % region would be 0 or 1 almost always when D is large, and a divergence
is without bound: neither can be averaged over pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from scipy.special import gammaincinv, ndtr
from torch import Tensor

from pcme.embedding import Gaussian
from pcme.plots import style

CENTRAL = 1.959963984540054
"""Half the width of a normal's central 95 %, in σ."""
LOOKED_AT = 2000
"""At most about this many items decide the plane, from all over the list."""


@dataclass(frozen=True)
class Shape:
    """A Gaussian in the plane: mean and covariance (xx, xy, yy)."""

    label: str
    mean: tuple[float, float]
    covariance: tuple[float, float, float]


def cover(inner: Gaussian, outer: Gaussian) -> Float64[np.ndarray, " n"]:
    """The share of each inner item's mass within the outer's central 95 %, mean over dimensions.

    >>> import torch
    >>> narrow, wide = (Gaussian(torch.zeros(1, 2), torch.full((1, 2), s)) for s in (-3.0, 0.0))
    >>> cover(narrow, wide).round(3).item(), cover(wide, narrow).round(3).item()
    (1.0, 0.078)
    """
    (m1, s1), (m2, s2) = ((side.mean.double().numpy(), side.sigma.double().numpy()) for side in (inner, outer))
    upper, lower = ((m2 - m1 + sign * CENTRAL * s2) / s1 for sign in (1, -1))
    share: Float64[np.ndarray, " n"] = (ndtr(upper) - ndtr(lower)).mean(1)
    return share


def pair_covers(inner: Gaussian, outer: Gaussian) -> Float64[np.ndarray, "3 n"]:
    """Per pair: inner in outer, outer in inner, inner in the outer of the next pair."""
    elsewhere = outer[[*range(1, len(outer)), 0]]
    return np.stack([cover(inner, outer), cover(outer, inner), cover(inner, elsewhere)])


def cover_margin(covers: Float64[np.ndarray, "*k 3 n"]) -> Float64[np.ndarray, "*k n"]:
    """The first cover minus the larger of the others."""
    return np.asarray(covers[..., 0, :] - covers[..., 1:, :].max(-2))


def least_favourable(candidates: Sequence[Float64[np.ndarray, "3 n"]]) -> Float64[np.ndarray, "3 n"]:
    """Per pair, the covers with the smallest margin."""
    stacked = np.stack(candidates)
    worst = cover_margin(stacked).argmin(0)
    return np.asarray(np.take_along_axis(stacked, worst[None, None], axis=0)[0])


def project(items: Sequence[tuple[str, Gaussian]], plane: Float64[np.ndarray, "2 d"]) -> tuple[Shape, ...]:
    """The items in the plane of two unit rows W: μ' = Wμ, Σ' = WΣWᵀ."""
    shapes = []
    for label, item in items:
        x, y = (plane @ item.mean[0].double().numpy()).tolist()
        spread = (plane * item.variance[0].double().numpy()) @ plane.T
        covariance = (float(spread[0, 0]), float(spread[0, 1]), float(spread[1, 1]))
        shapes.append(Shape(label, (x, y), covariance))
    return tuple(shapes)


def main_plane(items: Gaussian) -> Float64[np.ndarray, "2 d"]:
    """The two orthonormal rows along which the means of the items differ most."""
    means = items.mean[:: 1 + len(items) // LOOKED_AT].double().numpy()
    centred = means - means.mean(0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    rows = axes[:, [-1, -2]].T
    signs = np.sign(rows[[0, 1], np.abs(rows).argmax(1)])
    return np.asarray(rows * signs[:, None])


def radius(share: float, dim: int = 2) -> float:
    """The radius, in σ, of the ellipsoid about its mean that holds this share of a Gaussian.

    >>> round(radius(0.5), 4), round(radius(0.99), 4), round(radius(0.99, dim=1), 4)
    (1.1774, 3.0349, 2.5758)
    """
    return math.sqrt(-2 * math.log(1 - share) if dim == 2 else 2 * float(gammaincinv(dim / 2, share)))


def inside(items: Gaussian, points: Float[Tensor, "p d"], share: float) -> Bool[np.ndarray, "n p"]:
    """Which points lie in the ellipsoid of each item that holds this share of its mass."""
    limit, sides = radius(share, items.dim), zip(items.mean, items.sigma, strict=True)
    rows = [
        ((points - mean) / sigma).square().sum(-1).sqrt() <= limit for mean, sigma in sides
    ]  # n × p × d is too much
    return torch.stack(rows).numpy()


def ellipse(shape: Shape, share: float = 0.5, **looks: object) -> style.Patch:
    """The ellipse that holds this share of a shape's mass, to be added to a panel."""
    xx, xy, yy = shape.covariance
    values, vectors = np.linalg.eigh(np.array([[xx, xy], [xy, yy]]))
    short, long = (2 * radius(share) * np.sqrt(np.maximum(values, 0))).tolist()
    angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
    return style.patch("Ellipse", shape.mean, long, short, angle=angle, facecolor="none", **looks)


def add_ellipse(axes: style.Axes, shape: Shape, number: int) -> style.Line2D:
    """Draw a shape's 50 % ellipse and its mean in the n-th look; return the line for a legend."""
    colour, dash = style.PALETTE[number], style.DASHES[number]
    axes.add_patch(ellipse(shape, edgecolor=colour, linestyle=dash, linewidth=1.8))
    marker = style.MARKERS[number]
    axes.plot(*shape.mean, marker=marker, color=colour, markersize=2.5)
    return style.legend_line(color=colour, linestyle=dash, marker=marker, markersize=4, label=shape.label)
