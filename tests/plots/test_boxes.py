"""Diagrams: boxes where they are told to be, with their text, and arrows between them."""

import pytest

from pcme.plots import svg
from pcme.plots.boxes import Box, Heading, diagram

FIRST, SECOND = Box(0.1, 0.5, 1.0, 0.4, "words\n8", "given"), Box(2.0, 0.5, 1.2, 0.4, "a GRU", "learned")


def test_boxes_texts_and_arrows_are_drawn():
    figure = diagram([FIRST, SECOND], [(FIRST.right, SECOND.left)], [Heading(0.1, 0.2, "captions")], height=1.0)
    (axes,) = figure.axes
    assert [box.get_bbox().bounds for box in axes.patches] == [
        pytest.approx((0.1, 0.5, 1.0, 0.4)),
        pytest.approx((2.0, 0.5, 1.2, 0.4)),
    ]
    looks = {(box.get_facecolor(), box.get_linestyle()) for box in axes.patches}
    assert len(looks) == 2, "what is given and what is learned look different"
    assert [text.get_text() for text in axes.texts if text.get_text()] == ["words\n8", "a GRU", "captions"]
    (arrow,) = (text for text in axes.texts if getattr(text, "arrow_patch", None))
    assert (arrow.xyann, arrow.xy) == ((1.1, 0.7), (2.0, 0.7))
    assert svg(figure).startswith("<svg")


def test_the_middles_of_the_sides():
    assert FIRST.top == pytest.approx((0.6, 0.5))
    assert FIRST.bottom == pytest.approx((0.6, 0.9))
    assert (FIRST.left, FIRST.right) == (pytest.approx((0.1, 0.7)), pytest.approx((1.1, 0.7)))
