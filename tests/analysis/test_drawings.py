"""Every drawing: labelled, legible, the same every time, whatever the values."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pcme import analysis, plots
from pcme.analysis import Analysis, Number, Result
from pcme.evaluation import Estimate
from tests.analysis.subjects import subject


@pytest.fixture(scope="module")
def figures(results):
    return {name: analysis.create(name).figure(result, subject()) for name, result in results.items()}


@pytest.mark.parametrize("name", analysis.names())
def test_it_becomes_svg_and_png_without_date_or_chance(figures, name):
    text = plots.svg(figures[name])
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert not re.search(r"<dc:date>|\b20\d\d-\d\d-\d\d", text)
    assert plots.svg(figures[name]) == text
    assert plots.png(figures[name]).startswith(b"\x89PNG")


@pytest.mark.parametrize("name", sorted({*analysis.names()} - {"extremes", "words"}))
def test_every_axis_has_a_label(figures, name):
    shown = [axes for axes in figures[name].axes if axes.axison]
    rows = [axes.get_subplotspec().rowspan.start for axes in shown]
    assert any(axes.get_ylabel() for axes in shown)
    for axes, row in zip(shown, rows, strict=True):
        shared = any(other.get_xlabel() for other, below in zip(shown, rows, strict=True) if below > row)
        assert axes.get_xlabel() or shared, f"{name}: a panel without a label under it"


def test_lists_of_words_are_explained_and_the_panels_below_are_labelled(figures):
    figure = figures["words"]
    assert all("against everywhere" in part.get_supxlabel() for part in figure.subfigs[:2])
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.subfigs[2].axes)


@pytest.mark.parametrize("name", analysis.names())
def test_text_can_be_read_at_600_pixels_and_nothing_sticks_out(figures, name):
    figure = figures[name]
    plots.png(figure)  # lays it out
    width, height = figure.get_size_inches()
    assert width <= 6.4
    sizes = [text.get_fontsize() for text in figure.findobj(lambda a: hasattr(a, "get_fontsize"))]
    assert min(sizes) * 600 / (72 * width) >= 9.5
    box = figure.get_tightbbox()
    assert min(box.x0, box.y0) >= -0.02
    assert max(box.x1 - width, box.y1 - height) <= 0.02


def test_odd_captions_are_drawn_as_they_are_and_marks_are_more_than_colour(figures):
    artists = figures["extremes"].findobj(lambda artist: hasattr(artist, "get_parse_math") and artist.get_text())
    texts = {text.get_text() for text in artists}
    assert any("$" in text for text in texts)
    assert not any(text.get_parse_math() for text in artists)
    assert {"✓", "✗"} <= texts


def test_parts_that_are_missing_have_no_panel_and_a_sheet_without_images_is_still_a_sheet(results):
    assert plots.png(analysis.create("extremes").draw(results["extremes"])).startswith(b"\x89PNG")
    assert len(analysis.create("truth").draw(replace(results["truth"], width=None)).axes) == 1
    images_alone = replace(results["erasing"], curves=results["erasing"].curves[-1:])
    assert len(analysis.create("erasing").draw(images_alone).axes) == 1


def test_a_metric_that_is_the_same_in_all_bins_and_an_expected_number_of_0_are_drawn(results):
    queries, same = results["bins"].ways[0], (1.0, 1.0, 1.0)
    curve = replace(queries.curves[0], mean=same, low=same, high=same, over_bins=Estimate(*[math.nan] * 3))
    drawn = analysis.create("bins").draw(replace(results["bins"], ways=(replace(queries, curves=(curve,)),)))
    assert drawn.axes[0].get_legend().get_texts()[0].get_text() == "R@1, the same in all bins"
    expected = results["truth"].expected
    nothing = replace(expected, points=tuple(replace(point, says=0.0) for point in expected.points))
    assert plots.png(analysis.create("truth").draw(replace(results["truth"], expected=nothing)))


class Counts(Result):
    def numbers(self):
        name = "how many captions there are for each image of the split, on average"
        return (Number("images", 24, ""), Number(name, 5.0, "", 4.0, 6.0), Number("nothing", math.nan, ""))


class Counting(Analysis[Counts]):
    def compute(self, subject, progress=None):
        return Counts()


def test_without_plot_code_bars_of_the_numbers_are_drawn():
    figure = Counting().figure(Counting().compute(None), subject())
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [24, 5]
    assert "\n" in axes.get_yticklabels()[1].get_text()
    assert plots.png(figure).startswith(b"\x89PNG")
