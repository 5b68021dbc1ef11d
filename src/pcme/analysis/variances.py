"""variances: does σ need one number per dimension? Paper: §D, "DoF for σ"."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from pcme.analysis.base import SIGMA, Analysis, Number, Result, Subject, registry
from pcme.core.progress import Progress, silent
from pcme.core.random import numpy_stream
from pcme.data.problems import Problems
from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError
from pcme.evaluation import embed
from pcme.model import load
from pcme.plots import charts, style


@dataclass(frozen=True)
class Shares:
    """The shares of the variance of log σ, 1 in all.

    `item`: some items are wider than others, in all dimensions alike (all that an isotropic σ can express);
    `dimension`: some dimensions are wider than others, for all items alike; `shape`: the rest, the shape of each item.
    """

    item: float
    dimension: float
    shape: float


@dataclass(frozen=True)
class Profile:
    """The variances of images or captions per dimension, the largest first."""

    of: str
    mean: tuple[float, ...]
    """Mean σ² per dimension, sorted."""
    low: tuple[float, ...]
    high: tuple[float, ...]
    """The middle 80 % of the items in the same dimensions."""
    equal_volume: float
    """The σ² of an isotropic Gaussian with the same log volume on average."""
    isotropic: float | None
    """Mean σ² of a model that was trained with one σ per item, where one is given."""
    sphericity: float
    """Geometric over arithmetic mean of σ², averaged over items: 1 is a ball."""
    shares: Shares


@dataclass(frozen=True)
class VarianceProfiles(Result):
    """Sorted variances of images and captions."""

    profiles: tuple[Profile, ...]

    def numbers(self) -> tuple[Number, ...]:
        """How far from a ball, and the shares of σ's variance."""
        return tuple(
            Number(f"{what}, {profile.of}", value, meaning)
            for profile in self.profiles
            for what, value, meaning in (
                ("sphericity of σ²", profile.sphericity, "1: isotropic, one σ would do"),
                ("share of an item's width", profile.shares.item, "all that an isotropic σ has"),
                ("share of the dimensions", profile.shares.dimension, "the same for all items"),
                ("share of an item's shape", profile.shares.shape, "needs one σ a dimension"),
            )
        )


@registry.register("variances")
@dataclass(frozen=True)
class VariancesAnalysis(Analysis[VarianceProfiles]):
    """Sorted variances against the isotropic one, and the shares of σ's variance. Paper: §D.

    `isotropic` may name the folder of a run of method pcme-isotropic, to compare with.
    """

    needs = (SIGMA,)
    reading = (
        "Mean σ² of each dimension, the largest first; the band holds the middle 80 % of the "
        "items, the dashed line is the ball of the same volume. The further the curve leaves the "
        "line, the more is lost with one σ an item."
    )

    isotropic: str = ""
    items: int = 2000
    """The size of a fixed random sample of either kind."""

    def __post_init__(self) -> None:
        self._at_least(2, "items")

    def compute(self, subject: Subject, progress: Progress = silent) -> VarianceProfiles:
        """Images and captions."""
        sides = {"images": self._some(subject.images), "captions": self._some(subject.captions)}
        others = self._others(subject, progress)
        return VarianceProfiles(tuple(profile(of, items, others.get(of)) for of, items in sides.items()))

    @style.styled
    def draw(self, result: VarianceProfiles, images: object = None) -> style.Figure:
        """Sorted variances, one panel for images and one for captions, on one scale."""
        figure, panels = style.grid(1, len(result.profiles), height=3.2)
        for place, (axes, profile) in enumerate(zip(panels, result.profiles, strict=True)):
            _panel(axes, profile, style.PALETTE[place])
            axes.set_ylim(_lowest(result), _highest(result))
        panels[0].set_ylabel("σ² (units of the space, squared)")
        return figure

    def _some(self, items: Gaussian) -> Gaussian:
        drawn = numpy_stream(0, "variances").permutation(len(items))[: self.items]
        return items[drawn.tolist()]

    def _others(self, subject: Subject, progress: Progress) -> dict[str, float]:
        """Mean σ² of the isotropic run, on the same split."""
        if not self.isotropic:
            return {}
        found = embed(load(Path(self.isotropic)), subject.embedded.dataset, Problems(), progress=progress)
        return {
            "images": _one_variance(self.isotropic, found.images),
            "captions": _one_variance(self.isotropic, found.captions),
        }


def profile(of: str, items: Gaussian, isotropic: float | None) -> Profile:
    """The profile of some items."""
    variance = items.variance.double().numpy()
    order = np.argsort(-variance.mean(0), kind="stable")
    low, high = np.quantile(variance, (0.1, 0.9), axis=0)
    log_variance = np.log(variance)
    ratio = np.exp(log_variance.mean(1)) / variance.mean(1)
    return Profile(
        of,
        tuple(variance.mean(0)[order].tolist()),
        tuple(low[order].tolist()),
        tuple(high[order].tolist()),
        float(np.exp(log_variance.mean())),
        isotropic,
        float(ratio.mean()),
        shares(log_variance / 2),
    )


def shares(log_sigma: Float64[np.ndarray, "n d"]) -> Shares:
    """The two-way analysis of variance of log σ: items, dimensions, and what neither explains.

    >>> shares(np.array([[0.0, 0.0], [1.0, 1.0]]))
    Shares(item=1.0, dimension=0.0, shape=0.0)
    """
    whole = log_sigma - log_sigma.mean()
    item, dimension = whole.mean(1, keepdims=True), whole.mean(0, keepdims=True)
    total = np.square(whole).mean()
    if total == 0:
        return Shares(float("nan"), float("nan"), float("nan"))
    parts = [np.square(part).mean() / total for part in (item, dimension, whole - item - dimension)]
    return Shares(*map(float, parts))


def _one_variance(run: str, items: Embedding) -> float:
    if not isinstance(items, Gaussian) or items.log_sigma.shape[1] != 1:
        raise ConfigError(f"{run}: must have one sigma per item. Give a run of method pcme-isotropic.")
    return float(items.variance[:, 0].double().mean())


def _panel(axes: style.Axes, profile: Profile, colour: str) -> None:
    style.log_axis(axes, "y")
    x = range(1, len(profile.mean) + 1)
    axes.fill_between(x, profile.low, profile.high, color=colour, alpha=charts.BAND, linewidth=0)
    axes.plot(x, profile.mean, color=colour, label="mean of the dimension")
    axes.axhline(
        profile.equal_volume, color="black", linestyle=style.DASHES[1], linewidth=1.1,
        label="ball of the same volume",
    )  # fmt: skip
    if profile.isotropic is not None:
        axes.axhline(
            profile.isotropic, color="black", linestyle=style.DASHES[2], linewidth=1.4,
            label="trained with one σ",
        )  # fmt: skip
    axes.set(title=f"{profile.of}, sphericity {profile.sphericity:.2f}")
    axes.set_xlabel("dimension, the widest first")
    axes.legend(loc="upper right")


def _lowest(result: VarianceProfiles) -> float:
    return 0.8 * min(min(profile.low) for profile in result.profiles)


def _highest(result: VarianceProfiles) -> float:
    return 1.25 * max(max(profile.high) for profile in result.profiles)
