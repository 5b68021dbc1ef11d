"""Lines and bars for everybody: values where they belong, intervals, and lists that do not fit."""

import pytest

from pcme import plots
from pcme.errors import ShapeError


def test_lines_stand_where_their_values_are():
    figure = plots.lines(
        [plots.Line("a", [1, 2], [3, 4], [2, 3], [4, 5]), plots.Line("b", [1, 2], [5, 6])],
        x_label="samples J", y_label="R-Precision (%)", title="test",
    )  # fmt: skip
    (axes,) = figure.axes
    assert [line.get_ydata().tolist() for line in axes.lines] == [[3, 4], [5, 6]]
    assert len(axes.collections) == 1  # the one band
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("samples J", "R-Precision (%)")
    (axes,) = plots.lines([plots.Line("a", [1, 10], [1, 10])], x_label="x", y_label="y", log_x=True, log_y=True).axes
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_legend()) == ("log", "log", None)


@pytest.mark.parametrize("horizontal", [False, True])
def test_bars_are_as_long_as_their_values(horizontal):
    figure = plots.bars(
        ["one", "two"],
        [plots.Bars("i2t", [1, 2], [0.5, 2.2], [1.5, 2.5]), plots.Bars("t2i", [3, 4])],  # 2.2 lies beside its value
        y_label="R-Precision (%)", x_label="score", horizontal=horizontal,
    )  # fmt: skip
    (axes,) = figure.axes
    length = "get_width" if horizontal else "get_height"
    assert [getattr(bar, length)() for bar in axes.patches] == [1, 2, 3, 4]
    assert len({bar.get_hatch() for bar in axes.patches}) == 2
    ticks, label = (axes.get_yticklabels, axes.get_xlabel) if horizontal else (axes.get_xticklabels, axes.get_ylabel)
    assert [text.get_text() for text in ticks()] == ["one", "two"]
    assert label() == "R-Precision (%)"


@pytest.mark.parametrize(
    "make",
    [
        lambda: plots.Line("a", [1], [1, 2]),
        lambda: plots.Line("a", [1, 2], [1, 2], low=[1, 2]),
        lambda: plots.Bars("a", [1], [1, 2], [1, 2]),
        lambda: plots.Bars("a", [1], high=[2]),
        lambda: plots.bars(["one", "two"], [plots.Bars("a", [1])], y_label="y"),
    ],
)
def test_lists_that_do_not_fit_are_refused(make):
    with pytest.raises(ShapeError, match='"a"'):
        make()
