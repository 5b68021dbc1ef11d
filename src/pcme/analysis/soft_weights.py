"""soft-weights: how the gradient of a pair is shared among its J × J pairs of samples, as a and b grow.

    −∂L/∂l_jk = ±w_jk (1 − s(±l_jk)),  w_jk = s(±l_jk) / Σ s(±l),  l = b − a ‖z_j − z'_k‖      (+: a match, −: none)

With b/a held, the larger a, the more of it falls on one pair of samples: of a match that is too far, the nearest one,
which alone PVSE supervises (multiple-instance learning); of a non-match that is too near, the farthest one, where PVSE
has the nearest too. The loss over a tends to a hinge on that one distance, within log(2J²)/a. Paper: §A.2; Eq. (5).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor
from torch.nn.functional import logsigmoid

from pcme.analysis.base import Analysis, Number, Result, Subject, registry
from pcme.core.progress import Progress, silent
from pcme.core.random import torch_stream
from pcme.embedding import Gaussian
from pcme.plots import charts, style

SCALES = (2.5, 10.0, 40.0, 160.0, 640.0)
"""Values of a. 10 is where the paper starts on CUB, in units of the standard sigmoid; b is as large."""
FAR, NEAR = 1.6, 0.4
"""The distance of the means of a match that is too far, and of a non-match that is too near: p = ½ at b/a = 1."""
LOG_SIGMA = -2.1


@dataclass(frozen=True)
class SharedGradient:
    """The distances of a pair's J × J pairs of samples, rising, and their shares of its gradient for every a."""

    matches: bool
    distances: tuple[float, ...]
    shares: tuple[tuple[float, ...], ...]
    """Of each of `scales`; each adds up to 1."""

    @property
    def decisive(self) -> int:
        """The place of the pair of samples that has all of it in the limit: the nearest, or the farthest."""
        return 0 if self.matches else -1


@dataclass(frozen=True)
class SoftWeights(Result):
    """A match that is too far, and a non-match that is too near."""

    scales: tuple[float, ...]
    pairs: tuple[SharedGradient, ...]

    def numbers(self) -> tuple[Number, ...]:
        """The share of the pair of samples that the arg max would choose."""
        return tuple(
            Number(
                f"{'nearest of a match' if pair.matches else 'farthest of a non-match'}, a = {scale:g}",
                shares[pair.decisive],
                f"1: the arg max; {1 / len(shares):.3f}: all alike",
            )
            for pair in self.pairs
            for scale, shares in zip(self.scales, pair.shares, strict=True)
        )


@registry.register("soft-weights")
@dataclass(frozen=True)
class SoftWeightsAnalysis(Analysis[SoftWeights], at_least={"samples": 1}):
    """When do the soft weights of samples become the arg max of PVSE? Paper: §A.2."""

    reading = (
        "Each point is one of the J × J pairs of samples of an image and a caption: its distance, and its share of the "
        "gradient. The steeper the sigmoid, the more falls on one pair of samples: the nearest of a match that is too "
        "far, the farthest of a non-match that is too near. This needs no data and says nothing of the run."
    )

    samples: int = 7
    seed: int = 0

    def compute(self, subject: Subject | None, progress: Progress = silent) -> SoftWeights:
        """Draw the samples of both pairs; the subject is not used."""
        pairs = []
        for matches, distance in ((True, FAR), (False, NEAR)):
            items = Gaussian(torch.tensor([[0.0, 0.0], [distance, 0.0]]), torch.full((2, 2), LOG_SIGMA)).to(
                torch.float64
            )
            x, y = items.sample(self.samples, torch_stream(self.seed, "soft weights", matches)).x
            distances = torch.cdist(x, y).flatten().sort().values
            shares = tuple(_listed(gradient_shares(a - a * distances)) for a in SCALES)
            pairs.append(SharedGradient(matches, _listed(distances), shares))
        return SoftWeights(SCALES, tuple(pairs))

    @style.styled
    def draw(self, result: SoftWeights, images: object = None) -> style.Figure:
        """Shares by distance, a line for every a; the match on the left."""
        parts = [(pair, result.scales) for pair in result.pairs]
        figure = charts.side_by_side(parts, _draw_pair, height=3.5, y_label="share of the pair's gradient")
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        return figure


def gradient_shares(logits: Float64[Tensor, " n"]) -> Float64[Tensor, " n"]:
    """Each pair of samples' share of |∂L/∂l|, from its logit l: s(l) s(−l) over their sum, for a match and for none.

    w (1 − s(l)) is s(l) s(−l) / Σ s(l) for a match, and s(l) s(−l) / Σ s(−l) for none: the shares are the same.

    >>> gradient_shares(torch.tensor([0.0, 0.0, -60.0]).double()).round(decimals=4)
    tensor([0.5000, 0.5000, 0.0000], dtype=torch.float64)
    """
    return torch.softmax(logsigmoid(logits) + logsigmoid(-logits), 0)


def _listed(values: Float64[Tensor, " n"]) -> tuple[float, ...]:
    return tuple(values.tolist())


def _draw_pair(axes: style.Axes, part: tuple[SharedGradient, Sequence[float]]) -> None:
    pair, scales = part
    named = zip(scales, pair.shares, strict=True)
    charts.add_lines(axes, [charts.Line(f"a = {a:g}", pair.distances, shares) for a, shares in named])
    axes.set(
        title="a match, too far" if pair.matches else "no match, too near",
        xlabel="distance of the two samples (p = ½ at 1)",
        ylim=(-0.03, 1.03),
    )
