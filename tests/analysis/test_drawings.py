"""Every drawing: made from values alone, labelled, legible, the same every time."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pcme import analysis, plots
from pcme.data.sources import Files
from tests.analysis import results as made
from tests.helpers import picture

SHEETS = {"extremes"}
"""Pictures that are a sheet without axes."""


def test_there_is_one_of_each():
    assert sorted(made.ALL) == analysis.names()
    for name, result in made.ALL.items():
        assert isinstance(result, analysis.registry.get(name).result)


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    root = tmp_path_factory.mktemp("images")
    for number in range(3):
        picture(root / f"{number}.png", colour=(80 * number, 90, 200))
    images = Files(root, [f"{number}.png" for number in range(3)])
    return {name: analysis.create(name).draw(result, images) for name, result in made.ALL.items()}


@pytest.mark.parametrize("name", sorted(made.ALL))
def test_it_becomes_svg_and_png_without_date_or_chance(figures, name):
    text = plots.svg(figures[name])
    assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg"
    assert not re.search(r"<dc:date>|\b20\d\d-\d\d-\d\d", text)
    assert plots.svg(figures[name]) == text
    assert plots.png(figures[name]).startswith(b"\x89PNG")


@pytest.mark.parametrize("name", sorted(made.ALL.keys() - SHEETS - {"words"}))
def test_every_axis_has_a_label(figures, name):
    shown = [axes for axes in figures[name].axes if axes.axison]
    assert shown
    rows = [axes.get_subplotspec().rowspan.start for axes in shown]
    assert any(axes.get_ylabel() for axes in shown)
    for axes, row in zip(shown, rows, strict=True):
        below = [other for other in shown if other.get_subplotspec().rowspan.start > row]
        shared = any(other.get_xlabel() for other in below)
        assert axes.get_xlabel() or shared, f"{name}: a panel without a label under it"


def test_lists_of_words_are_explained_and_the_panels_below_are_labelled(figures):
    figure = figures["words"]
    said = [part.get_supxlabel() for part in figure.subfigs[:2]]
    assert all("against everywhere" in text for text in said)
    assert all(axes.get_xlabel() and axes.get_ylabel() for axes in figure.subfigs[2].axes)


@pytest.mark.parametrize("name", sorted(made.ALL))
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
    artists = figures["extremes"].findobj(_is_text)
    texts = {text.get_text() for text in artists}
    assert any("$x^2$" in text for text in texts)
    assert not any(text.get_parse_math() for text in artists)
    assert {"✓", "✗"} <= texts


def test_a_sheet_without_pictures_is_still_a_sheet():
    assert plots.png(analysis.create("extremes").draw(made.TAILS)).startswith(b"\x89PNG")


def test_only_expected_numbers_are_known_of_a_model_without_sigma():
    assert len(analysis.create("truth").draw(replace(made.TRUTH, width=None)).axes) == 1


def test_images_alone_or_captions_alone_are_one_panel():
    only = replace(made.ERASING, curves=made.ERASING.curves[-1:])
    assert len(analysis.create("erasing").draw(only).axes) == 1


def _is_text(artist):
    return hasattr(artist, "get_parse_math") and artist.get_text()
