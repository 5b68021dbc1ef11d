"""An analysis from outside the package: listed, computed, drawn, written and read like ours."""

from dataclasses import dataclass

import pytest

from pcme import analysis, methods, plots
from pcme.analysis import Analysis, Number, Result
from pcme.errors import ConfigError
from tests.analysis.subjects import MEANS_ONLY, subject


@dataclass(frozen=True)
class Counts(Result):
    images: int
    ratio: float

    def numbers(self):
        long = "how many captions there are for each image of the split, on average"
        return (
            Number("images", self.images, "more is better"),
            Number(long, self.ratio, "1: one each", 0.9 * self.ratio, 1.1 * self.ratio),
            Number("nothing", float("nan"), "never known"),
        )


@dataclass(frozen=True)
class Counting(Analysis[Counts]):
    """Count what there is."""

    reading = "One bar per number."

    def compute(self, subject, progress=None):
        dataset = subject.embedded.dataset
        return Counts(len(dataset.images), len(dataset.captions) / len(dataset.images))


@pytest.fixture
def counting():
    analysis.registry.register("counting")(Counting)
    yield analysis.create("counting")
    del analysis.registry._classes["counting"]


def test_it_is_drawn_as_bars_of_its_numbers_without_plot_code(counting):
    result = counting.compute(subject())
    figure = counting.figure(result, subject())
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [result.images, result.ratio]
    assert "\n" in axes.get_yticklabels()[1].get_text()
    assert plots.png(figure).startswith(b"\x89PNG")


def test_its_result_is_written_and_read_back(counting, tmp_path):
    result = counting.compute(subject())
    analysis.write(tmp_path / "counting.json", "counting", result, {"run": "x"})
    assert analysis.read(tmp_path / "counting.json").result == result
    assert "counting" in analysis.applicable(subject())


def test_a_method_with_a_required_field_does_not_break_the_help_text():
    @dataclass(frozen=True)
    class Demanding(methods.registry.get("pcme")):
        needed: int = None

        def __post_init__(self):
            raise AssertionError("created")

    methods.registry.register("demanding")(Demanding)
    try:
        with pytest.raises(ConfigError, match="demanding"):
            analysis.require("bins", subject(MEANS_ONLY))
    finally:
        del methods.registry._classes["demanding"]
