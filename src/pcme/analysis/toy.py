"""toy: nine classes in the plane without any network, where the loss itself can be seen.

Every image and caption is a 2-D Gaussian of its own, trained directly by the paper's loss: nothing but the loss decides
where it lies and how wide it is. Captions of a class match its images; one generic caption ("this bird has <unk> ...
<unk>") matches all. It is not the paper's figure, which is that of trained networks on photographs of these classes, to
which the generic caption is new: that is the analysis `ellipses`. Paper: Eq. (1); the classes of §C.3.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor, nn

from pcme.analysis.base import Analysis, Number, Result, Subject, registry
from pcme.analysis.geometry import inside, radius
from pcme.core.progress import Progress, silent
from pcme.core.random import torch_stream
from pcme.embedding import Gaussian
from pcme.methods.likelihood import pair_nll
from pcme.plots import charts, style

COLOUR = style.PALETTE[4]

CLASSES = (
    "Western Grebe", "Pied Billed Grebe", "Pacific Loon",
    "Vermilion Flycatcher", "Black And White Warbler", "American Redstart",
    "Red Headed Woodpecker", "Red Bellied Woodpecker", "Downy Woodpecker",
)  # fmt: skip
"""The paper's nine: swimming birds, small birds, woodpeckers. Paper: §C.3."""

GENERIC = -1
"""The class of the caption that matches all images."""

SCALE, SHIFT, PRIOR = 10.0, 5.0, 0.02
"""a and b of Eq. (3), and the weight of the KL term, which keeps σ from vanishing. Chosen, with the numbers of items,
as they give a caption that covers all; most others do not (docs/guide/analyze.md)."""

LEARNING_RATE, SAMPLES = 0.05, 7


@dataclass(frozen=True)
class PlaneGaussian:
    """A Gaussian in the plane and its class."""

    klass: int
    x: float
    y: float
    sigma_x: float
    sigma_y: float


@dataclass(frozen=True)
class Plane(Result):
    """The learned Gaussians, and how many of the nine class means their ellipses cover."""

    images: tuple[PlaneGaussian, ...]
    captions: tuple[PlaneGaussian, ...]
    """Those of the classes; the generic one is apart."""
    generic: PlaneGaussian
    centres: tuple[tuple[float, float], ...]
    """The mean of the images' means of each class."""
    generic_covers: float
    """The share of the class means in the generic caption's 99 % ellipse."""
    own_at_half: float
    own_at_99: float
    """The share of class captions whose 50 %, and 99 %, ellipse holds the mean of their class."""
    others_at_99: float
    """The share of (class caption, other class) with the other's mean in the 99 % ellipse."""
    wider: float
    """How many times as wide the generic caption is as those of the classes (geometric mean)."""

    def numbers(self) -> tuple[Number, ...]:
        """The coverage of class means by ellipses."""
        return (
            Number("class means in the generic caption's 99 % ellipse", self.generic_covers, "1: all"),
            Number("class captions over their class, 99 %", self.own_at_99, "1: all"),
            Number("class captions over their class, 50 %", self.own_at_half, "1: all"),
            Number("class captions over another class, 99 %", self.others_at_99, "0: none"),
            Number("σ of the generic caption over that of others", self.wider, "1: no wider"),
        )


@registry.register("toy")
@dataclass(frozen=True)
class ToyAnalysis(Analysis[Plane], at_least={"images": 1, "captions": 1, "steps": 1}):
    """What does the loss alone do with nine classes and a caption that fits all? Paper: Eq. (1)."""

    reading = (
        "Ellipses hold half of each embedding's mass, in the colour and hatch of their class; the large one is the "
        "99 % ellipse of the caption that fits all. It should cover every class, and the others only their own. This "
        "needs no data and says nothing of the run."
    )

    images: int = 5
    captions: int = 6
    """So many of each class. The generic caption must be rare among them: with two a class the plane shrinks until one
    point reaches all of it, and nothing has to be wide."""
    steps: int = 300
    seed: int = 0

    def compute(self, subject: Subject | None, progress: Progress = silent) -> Plane:
        """Train the Gaussians; the subject is not used."""
        image_class, caption_class = (
            torch.arange(len(CLASSES)).repeat_interleave(each) for each in (self.images, self.captions)
        )
        own = caption_class[:, None] == torch.arange(len(CLASSES))
        images, captions = self._train(torch.cat([own, torch.ones(1, len(CLASSES)).bool()])[:, image_class], progress)
        centres = torch.stack([images.mean[image_class == c].mean(0) for c in range(len(CLASSES))])
        of_class, generic = captions[:-1], captions[len(captions) - 1]
        half, most, right = inside(of_class, centres, 0.5), inside(of_class, centres, 0.99), own.numpy()
        widths: Float64[np.ndarray, " n"] = captions.uncertainty().double().numpy()
        return Plane(
            _ellipses(images, image_class),
            _ellipses(of_class, caption_class),
            _ellipses(generic, torch.tensor([GENERIC]))[0],
            tuple((float(x), float(y)) for x, y in centres),
            float(inside(generic, centres, 0.99).mean()),
            float(half[right].mean()),
            float(most[right].mean()),
            float(most[~right].mean()),
            float(widths[-1] / np.exp(np.log(widths[:-1]).mean())),
        )

    @style.styled
    def draw(self, result: Plane, images: object = None) -> style.Figure:
        """Images on the left, captions on the right; the generic caption's 99 % ellipse in both."""
        parts = (("images", result.images, result), ("captions", result.captions, result))
        figure = charts.side_by_side(parts, _panel, height=4.1, y_label="second coordinate")
        handles = [style.legend_line(label=f"{n} {name}", **_looks(n - 1)) for n, name in enumerate(CLASSES, start=1)]
        handles.append(style.legend_line(color=COLOUR, linewidth=2.6, label="generic caption, 99 %"))
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
        return figure

    def _train(self, matches: Bool[Tensor, "c i"], progress: Progress) -> tuple[Gaussian, Gaussian]:
        """Images and captions after `steps` of Adam, along a half cosine, on Eq. (1) plus the KL to N(0, I)."""
        generator = torch_stream(self.seed, "toy")
        parts = []
        for count in matches.shape:  # near the centre, σ = 1: Gaussians that start narrow stay where they are
            means = torch.randn(count, 2, generator=generator) / 2
            parts.append((nn.Parameter(means), nn.Parameter(torch.zeros(count, 2))))
        optimiser = torch.optim.Adam([parameter for part in parts for parameter in part], lr=LEARNING_RATE)
        for step in range(self.steps):
            rate = LEARNING_RATE * (1 + math.cos(math.pi * step / self.steps)) / 2
            optimiser.param_groups[0]["lr"] = rate
            captions, images = both = [Gaussian(*part) for part in parts]
            nll = pair_nll(captions, images, matches, scale=SCALE, shift=SHIFT, samples=SAMPLES, generator=generator)
            kl = [(side.mean.square() + side.variance - 1 - 2 * side.log_sigma).mean() / 2 for side in both]
            loss = nll.mean() + PRIOR * torch.stack(kl).sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            progress("steps", step + 1, self.steps)
        captions, images = (Gaussian(*part).detach() for part in parts)
        return images, captions


def _ellipses(items: Gaussian, classes: Tensor) -> tuple[PlaneGaussian, ...]:
    rows = torch.cat([items.mean, items.sigma], 1).double().tolist()
    return tuple(PlaneGaussian(c, *row) for c, row in zip(classes.tolist(), rows, strict=True))


def _panel(axes: style.Axes, part: tuple[str, Sequence[PlaneGaussian], Plane]) -> None:
    title, items, result = part
    for item in items:
        looks = _looks(item.klass)
        axes.add_patch(_oval(item, 0.5, edgecolor=looks["color"], linestyle=looks["linestyle"], linewidth=1))
    axes.add_patch(_oval(result.generic, 0.99, edgecolor=COLOUR, linestyle="-", linewidth=2.6))
    for number, (x, y) in enumerate(result.centres, start=1):
        axes.text(x, y, str(number), ha="center", va="center", fontsize=9, fontweight="bold")
    axes.set(title=f"{title}, 50 % ellipses", xlabel="first coordinate")
    axes.set_aspect("equal", adjustable="datalim")
    axes.autoscale_view()


def _oval(item: PlaneGaussian, share: float, **looks: object) -> style.Patch:
    size = 2 * radius(share)
    return style.patch("Ellipse", (item.x, item.y), size * item.sigma_x, size * item.sigma_y, fill=False, **looks)


def _looks(klass: int) -> dict[str, Any]:
    """A colour for each group of three, a dash for each of its members."""
    return {"color": style.PALETTE[klass // 3], "linestyle": style.DASHES[klass % 3]}
