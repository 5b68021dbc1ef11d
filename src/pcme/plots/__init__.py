"""Pictures: what the analyses found, and general charts, in one style (`pcme[plots]`).

    figure = plots.draw(result, images)
    plots.save(figure, Path("bins"))  # bins.svg and bins.png

This package alone imports matplotlib, and nothing imports it before something is to be drawn.
"""

from collections.abc import Callable
from typing import Any

from pcme.analysis.algebra import Relations
from pcme.analysis.base import Result
from pcme.analysis.bins import SigmaBins
from pcme.analysis.calibration import Reliability
from pcme.analysis.erasing import Spoilings
from pcme.analysis.extremes import Tails
from pcme.analysis.influence import WordInfluences
from pcme.analysis.toy import Plane
from pcme.analysis.truth import MatchTruth
from pcme.analysis.variances import VarianceProfiles
from pcme.analysis.words import WordBins
from pcme.data.sources import ImageSource
from pcme.plots.algebra import draw_algebra
from pcme.plots.bins import draw_bins
from pcme.plots.calibration import draw_calibration
from pcme.plots.charts import Bars, Line, bars, lines
from pcme.plots.erasing import draw_erasing
from pcme.plots.extremes import draw_extremes
from pcme.plots.influence import draw_influence
from pcme.plots.style import Figure, png, save, svg
from pcme.plots.toy import draw_toy
from pcme.plots.truth import draw_truth
from pcme.plots.variances import draw_variances
from pcme.plots.words import draw_words

__all__ = ["Bars", "Figure", "Line", "bars", "draw", "lines", "png", "save", "svg"]

_DRAWN: dict[type[Result], Callable[[Any], Figure]] = {
    MatchTruth: draw_truth,
    Plane: draw_toy,
    Relations: draw_algebra,
    Reliability: draw_calibration,
    SigmaBins: draw_bins,
    Spoilings: draw_erasing,
    VarianceProfiles: draw_variances,
    WordBins: draw_words,
    WordInfluences: draw_influence,
}


def draw(result: Result, images: ImageSource | None = None) -> Figure:
    """The picture of a result; `images` are the split's, for pictures that show some of them."""
    if isinstance(result, Tails):
        return draw_extremes(result, images)
    return _DRAWN[type(result)](result)
