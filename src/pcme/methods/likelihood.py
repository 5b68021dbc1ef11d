"""`pair_nll`: the soft contrastive loss of every pair of a batch. Paper: Eq. (1)–(3)."""

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from pcme.core.checks import require, require_known
from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import ShapeError
from pcme.kernels import analytic, overlap, sampled
from pcme.kernels.devices import uses_compiled
from pcme.methods.base import require_gaussians
from pcme.retrieval.matches import Matches

Method = Literal["sampled", "analytic", "overlap"]


def pair_nll(
    images: Embedding,
    captions: Embedding,
    matches: Matches | Bool[Tensor, "b c"],
    *,
    scale: float | Float[Tensor, ""],
    shift: float | Float[Tensor, ""],
    method: Method = "sampled",
    samples: int = 7,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "b c"]:
    """−log p where `matches`, −log(1 − p) elsewhere, for all pairs. Paper: Eq. (1).

    * `sampled`: p = mean over J² of sigmoid(shift − scale ‖z − z'‖), Eq. (2)–(3). A `Gaussian` is sampled with
      `generator` (images first, then captions; None: torch's default one); `Points` are taken as they are.
    * `analytic`: its limit for J → ∞ (`quadrature`).
    * `overlap`: p = sigmoid(shift − scale / 2D · Σ [(μ₁−μ₂)² / (σ₁²+σ₂²) + log(σ₁²+σ₂²)]).

    Gradients reach mean, log_sigma (or the points), `scale` and `shift`. Differs: `scale` is
    positive and the sigmoid is the standard one (docs/science/errata.md, 1).

    >>> same = Gaussian(torch.zeros(1, 2), torch.full((1, 2), -9.0))
    >>> yes = torch.ones(1, 1, dtype=torch.bool)
    >>> pair_nll(same, same, yes, scale=10.0, shift=2.0, method="analytic").item()
    0.1...
    """
    require_known("method", method, get_args(Method))
    _require_same_space(images, captions)
    sign = _sign(matches, (len(images), len(captions)), images)
    a, b = (torch.as_tensor(v, dtype=sign.dtype, device=sign.device) for v in (scale, shift))
    if method == "sampled":
        x, y = _points(images, samples, generator), _points(captions, samples, generator)
        return sampled.pair_nll(x, y, sign, a, b)
    remedy = 'Set method="sampled" for points.'
    left, right = require_gaussians(f'method "{method}"', images, captions, remedy)
    if method == "analytic":
        sides = (left.mean, left.variance), (right.mean, right.variance)
        return -analytic.log_match(*sides, a, b, sign)
    return -logsigmoid(sign * (b - a * overlap_energy(left, right)))


def overlap_energy(images: Gaussian, captions: Gaussian) -> Float[Tensor, "b c"]:
    """1/2D · Σ_d [(μ₁−μ₂)² / (σ₁²+σ₂²) + log(σ₁²+σ₂²)] of all pairs.

    Up to a constant −1/D of the log of the overlap ∫pq; the logit of `overlap` is shift − scale · energy.
    """
    m, log_sum = overlap.terms(images, captions)
    return ((m + log_sum) / (2 * images.dim)).to(images.mean.dtype)


def energy_nll(
    energy: Float[Tensor, "b c"], matches: Bool[Tensor, "b c"], scale: Float[Tensor, ""], shift: Float[Tensor, ""]
) -> Float[Tensor, "b c"]:
    """`pair_nll` of the method `overlap`, from energies computed before."""
    return -logsigmoid((matches.to(energy) * 2 - 1) * (shift - scale * energy))


def _points(items: Embedding, samples: int, generator: torch.Generator | None) -> Float[Tensor, "n k d"]:
    if isinstance(items, Points):
        return items.x
    require("samples", samples >= 1, "at least 1", samples)
    return items.sample(samples, generator).x


def _sign(matches: Matches | Bool[Tensor, "b c"], shape: tuple[int, int], like: Embedding) -> Float[Tensor, "b c"]:
    """+1 where a pair matches, −1 elsewhere."""
    dense = torch.as_tensor(matches.dense()) if isinstance(matches, Matches) else matches
    if dense.dtype != torch.bool or tuple(dense.shape) != shape:
        raise ShapeError(
            f"matches must be a Matches or a bool tensor {list(shape)} (images × captions), "
            f"got {dense.dtype} {list(dense.shape)}."
        )
    return dense.to(like.device, like.dtype) * 2 - 1


def _require_same_space(images: Embedding, captions: Embedding) -> None:
    if not len(images) or not len(captions):
        raise ShapeError(f"a batch needs an image and a caption at least, got {len(images)} and {len(captions)}.")
    if images.dim != captions.dim:
        raise ShapeError(f"images have dimension {images.dim}, captions {captions.dim}: not one space.")
    if uses_compiled(images.device):  # elsewhere the look would wait for the device; the loss is looked at instead
        images.require_finite("images")
        captions.require_finite("captions")
