"""An analysis in one file, without plot code: how bright the images of a split are."""

from dataclasses import dataclass

import numpy as np

from pcme.analysis.base import Analysis, Number, Result, Subject, registry
from pcme.core.progress import Progress, silent


@dataclass(frozen=True)
class Brightness(Result):
    """Mean brightness, and how far it spreads."""

    mean: float
    spread: float

    def numbers(self) -> tuple[Number, ...]:
        return (
            Number("brightness", self.mean, "mean of all pixels, 0 to 255"),
            Number("spread", self.spread, "standard deviation between images"),
        )


@registry.register("flock-brightness")
@dataclass(frozen=True)
class BrightnessOfImages(Analysis[Brightness]):
    """How bright are the images?"""

    reading = "One bar per number."
    images: int = 100

    def compute(self, subject: Subject, progress: Progress = silent) -> Brightness:
        source = subject.dataset.images
        values = [np.asarray(source.load(i)).mean() for i in range(min(len(source), self.images))]
        progress("images", len(values), len(values))
        return Brightness(float(np.mean(values)), float(np.std(values)))
