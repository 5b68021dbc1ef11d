"""The picture of `variances`. Paper: §D, "How isotropic are variances?"."""

from pcme.analysis.variances import Profile, VarianceProfiles
from pcme.plots.charts import BAND
from pcme.plots.style import DASHES, PALETTE, Axes, Figure, grid, log_axis, styled

__all__ = ["draw_variances"]


@styled
def draw_variances(result: VarianceProfiles) -> Figure:
    """Sorted variances, a panel for images and one for captions, on one scale."""
    figure, panels = grid(1, len(result.profiles), height=3.2)
    for place, (axes, profile) in enumerate(zip(panels, result.profiles, strict=True)):
        _panel(axes, profile, PALETTE[place])
        axes.set_ylim(_lowest(result), _highest(result))
    panels[0].set_ylabel("σ² (units of the space, squared)")
    return figure


def _panel(axes: Axes, profile: Profile, colour: str) -> None:
    log_axis(axes, "y")
    x = range(1, len(profile.mean) + 1)
    axes.fill_between(x, profile.low, profile.high, color=colour, alpha=BAND, linewidth=0)
    axes.plot(x, profile.mean, color=colour, label="mean of the dimension")
    axes.axhline(
        profile.equal_volume, color="black", linestyle=DASHES[1], linewidth=1.1,
        label="ball of the same volume",
    )  # fmt: skip
    if profile.isotropic is not None:
        axes.axhline(
            profile.isotropic, color="black", linestyle=DASHES[2], linewidth=1.4,
            label="trained with one σ",
        )  # fmt: skip
    axes.set(title=f"{profile.of}, sphericity {profile.sphericity:.2f}")
    axes.set_xlabel("dimension, the widest first")
    axes.legend(loc="upper right")


def _lowest(result: VarianceProfiles) -> float:
    return 0.8 * min(min(profile.low) for profile in result.profiles)


def _highest(result: VarianceProfiles) -> float:
    return 1.25 * max(max(profile.high) for profile in result.profiles)
