"""Pictures of handmade values: what is drawn is what the table says."""

from dataclasses import replace

import pytest

from pcme.reproduce.base import Column, Plot
from pcme.reproduce.pictures import draw, save
from tests.reproduce.tiny import COLUMNS, RESULT, TABLE


def test_bars_are_the_rows_that_have_the_values_in_percent_or_as_they_are():
    figure = draw(TABLE)
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["PVSE", "PCME"]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([30, 50])
    both = draw(replace(TABLE, plot=Plot("bars", "")))
    assert [text.get_text() for text in both.axes[0].get_yticklabels()] == ["PCME"]
    plain = (Column("n", "n", percent=False), COLUMNS[1])
    numbers = draw(replace(TABLE, columns=plain, plot=Plot("bars", "", columns=("n",))))
    assert [bar.get_width() for bar in numbers.axes[0].patches] == pytest.approx([0.3, 0.5])


def test_curves_over_columns_are_rows():
    columns = tuple(replace(column, x=place) for place, column in enumerate(COLUMNS))
    figure = draw(replace(TABLE, columns=columns, plot=Plot("columns", "y", "x")))
    (line,) = figure.axes[0].lines
    assert (line.get_label(), list(line.get_xdata())) == ("PCME", [0, 1])
    assert list(line.get_ydata()) == pytest.approx([50, -3.5])


def test_curves_over_rows_are_series_and_columns():
    plot = Plot("rows", "y", "J", columns=("i2t R-P",), log_x=True)
    figure = draw(replace(TABLE, plot=plot))
    assert [line.get_label() for line in figure.axes[0].lines] == ["points, i2t R-P", "ours, i2t R-P"]
    assert figure.axes[0].get_xscale() == "log"


def test_every_table_is_a_picture_of_its_own(tmp_path):
    save(replace(RESULT, tables=(TABLE, TABLE)), tmp_path / "some.name")
    written = list(tmp_path.iterdir())
    assert {path.name for path in written} == {f"some.name-{n}.{suffix}" for n in (1, 2) for suffix in ("png", "svg")}
    assert all(path.stat().st_size > 1000 for path in written)
