"""variances: does σ need one number per dimension? Paper: §D, "DoF for σ"."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from pcme.analysis.base import SIGMA, Analysis, Number, Result, Subject, registry, sample_rows, sides
from pcme.core.progress import Progress, silent
from pcme.data.problems import Problems
from pcme.embedding import Gaussian
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
class VariancesAnalysis(Analysis[VarianceProfiles], at_least={"items": 2}):
    """Sorted variances against the isotropic one, and the shares of σ's variance. Paper: §D.

    `isotropic` may name the folder of a run of method pcme-isotropic, to compare with.
    """

    needs = (SIGMA,)
    reading = (
        "Mean σ² of each dimension, the largest first; the band holds the middle 80 % of the items, the dashed line is "
        "the ball of the same volume. The further the curve leaves the line, the more is lost with one σ an item."
    )

    isotropic: str = ""
    items: int = 2000
    """The size of a fixed random sample of either kind."""

    def compute(self, subject: Subject, progress: Progress = silent) -> VarianceProfiles:
        """Images and captions."""
        isotropic = self._isotropic(subject, progress)
        profiles = []
        for side in sides(subject):
            rows = sample_rows(len(side.queries), self.items, "variances")
            profiles.append(profile(side.of, side.queries[rows], isotropic.get(side.of)))
        return VarianceProfiles(tuple(profiles))

    @style.styled
    def draw(self, result: VarianceProfiles, images: object = None) -> style.Figure:
        """Sorted variances, one panel for images and one for captions, on one scale."""
        lowest = 0.8 * min(min(profile.low) for profile in result.profiles)
        highest = 1.25 * max(max(profile.high) for profile in result.profiles)

        def panel(axes: style.Axes, numbered: tuple[int, Profile]) -> None:
            _panel(axes, numbered[1], style.PALETTE[numbered[0]])
            axes.set_ylim(lowest, highest)

        label = "σ² (units of the space, squared)"
        return charts.side_by_side(list(enumerate(result.profiles)), panel, height=3.2, y_label=label)

    def _isotropic(self, subject: Subject, progress: Progress) -> dict[str, float]:
        """Mean σ² of the isotropic run, on the same split."""
        if not self.isotropic:
            return {}
        split = embed(
            load(Path(self.isotropic), device=subject.model.device),
            subject.embedded.dataset,
            Problems(),
            progress=progress,
        )
        means = {}
        for of, items in (("images", split.images), ("captions", split.captions)):
            if not isinstance(items, Gaussian) or items.log_sigma.shape[1] != 1:
                raise ConfigError(f"{self.isotropic}: needs one sigma per item. Give a run of method pcme-isotropic.")
            means[of] = float(items.variance[:, 0].double().mean())
        return means


def profile(of: str, items: Gaussian, isotropic: float | None) -> Profile:
    """The profile of some items."""
    variance = items.variance.double().numpy()
    log_variance = np.log(variance)
    order = np.argsort(-variance.mean(0), kind="stable")
    quantiles = np.quantile(variance, (0.1, 0.9), axis=0)
    mean, low, high = (tuple(part[order].tolist()) for part in (variance.mean(0), *quantiles))
    volume = float(np.exp(log_variance.mean()))
    sphericity = float((np.exp(log_variance.mean(1)) / variance.mean(1)).mean())
    return Profile(of, mean, low, high, volume, isotropic, sphericity, shares(log_variance / 2))


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


def _panel(axes: style.Axes, profile: Profile, colour: str) -> None:
    style.log_axis(axes, "y")
    x = range(1, len(profile.mean) + 1)
    axes.fill_between(x, profile.low, profile.high, color=colour, alpha=charts.BAND, linewidth=0)
    axes.plot(x, profile.mean, color=colour, label="mean of the dimension")
    levels = ((profile.equal_volume, 1.1, "ball of the same volume"), (profile.isotropic, 1.4, "trained with one σ"))
    for dash, (level, width, label) in enumerate(levels, start=1):
        if level is not None:
            axes.axhline(level, color="black", linestyle=style.DASHES[dash], linewidth=width, label=label)
    axes.set(title=f"{profile.of}, sphericity {profile.sphericity:.2f}", xlabel="dimension, the widest first")
    axes.legend(loc="upper right")
