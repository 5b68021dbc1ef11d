"""Figures in one style (`pcme[plots]`): general charts, and the parts that analyses draw with.

    figure = plots.bars(["mean", "w2"], [plots.Bars("i2t", [26.1, 26.2])], y_label="R@1 (%)")
    plots.save(figure, Path("scores"))  # scores.svg and scores.png

This package alone imports matplotlib, and only when something is drawn.
"""

from pcme.plots.charts import Bars, Line, bars, lines
from pcme.plots.style import Figure, png, require, save, svg

__all__ = ["Bars", "Figure", "Line", "bars", "lines", "png", "require", "save", "svg"]
