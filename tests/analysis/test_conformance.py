"""What every analysis must do: a new one is tested by being there."""

import dataclasses
import json
import math
from dataclasses import dataclass

import pytest

from pcme import analysis, methods
from pcme.analysis import Subject
from pcme.errors import ConfigError, FormatError
from tests.analysis.conftest import compute
from tests.analysis.subjects import MEANS_ONLY, NO_PROBABILITY, subject, untrained


@pytest.mark.parametrize("name", analysis.names())
def test_a_result_is_written_as_json_for_everybody_and_read_back_as_the_same_value(results, tmp_path, name):
    about = {"run": "runs/x", "split": "test"}
    analysis.write(tmp_path / "found.json", name, results[name], about)
    record = json.loads((tmp_path / "found.json").read_text(), parse_constant=pytest.fail)  # NaN
    assert record == analysis.record(name, results[name], about)
    assert record["numbers"]
    stored = analysis.read(tmp_path / "found.json")
    assert repr(stored.result) == repr(results[name])  # NaN is not equal to itself
    assert (stored.analysis, stored.about) == (name, about)
    with pytest.raises(ConfigError, match="folder"):
        analysis.write(tmp_path / "none" / "found.json", name, results[name], about)


@pytest.mark.parametrize("name", analysis.names())
def test_it_is_the_same_every_time_and_its_numbers_have_names_meanings_and_sane_intervals(results, name):
    assert repr(compute(name)) == repr(results[name])
    numbers = results[name].numbers()
    assert len({number.name for number in numbers}) == len(numbers)
    for number in numbers:
        assert number.name
        assert number.meaning
        assert (number.low is None) == (number.high is None)
        assert number.low is None or math.isnan(number.low) or number.low <= number.high


@pytest.mark.parametrize("name", analysis.names())
def test_it_says_what_it_is_and_how_to_read_it(results, name):
    kind = analysis.registry.get(name)
    assert analysis.registry.summary(name).endswith(".")
    assert kind.reading.endswith(".")
    assert isinstance(results[name], kind.result)
    assert all(type(field.default) in (int, float, str) for field in dataclasses.fields(kind))
    for field, least in kind.at_least.items():
        with pytest.raises(ConfigError, match=f"{field}: must be at least {least}"):
            analysis.create(name, **{field: least - 1})


def test_all_fit_a_model_with_sigma_and_few_one_without():
    assert analysis.applicable(subject()) == analysis.names()
    assert analysis.applicable(subject(MEANS_ONLY)) == ["calibration", "soft-weights", "toy", "truth"]
    assert analysis.applicable(subject(NO_PROBABILITY)) == ["soft-weights", "toy"]
    of = Subject(untrained(), lambda: subject().dataset, lambda _: pytest.fail("embedded"))
    assert analysis.applicable(of) == analysis.names(), "asking embeds nothing"


def test_what_does_not_fit_is_refused_with_what_does():
    analysis.require("bins", subject())
    message = "method pcme-mu has none.* run: calibration, soft-weights, toy, truth.* with a sigma.*pcme-overlap"
    with pytest.raises(ConfigError, match=message) as refused:
        analysis.require("bins", subject(MEANS_ONLY))
    assert "vse0" not in str(refused.value)


def test_a_method_that_cannot_be_created_does_not_break_the_message(monkeypatch):
    monkeypatch.setattr(methods.registry, "_classes", dict(methods.registry._classes))

    @methods.registry.register("demanding")
    @dataclass(frozen=True)
    class Demanding(methods.registry.get("pcme")):
        def __post_init__(self):
            raise AssertionError("created")

    with pytest.raises(ConfigError, match="demanding"):
        analysis.require("bins", subject(MEANS_ONLY))


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (["bins"], "key=value"),
        (["bins=many"], "whole number, such as 10, got 'many'"),
        (["bins=2.5"], "whole number"),
        (["bins=1"], "at least 2"),
        (["bin=3"], 'Did you mean "bins"'),
    ],
)
def test_wrong_parameters_are_explained(assignments, message):
    with pytest.raises(ConfigError, match=message):
        analysis.configured("bins", assignments)


def test_parameters_take_the_type_of_their_defaults():
    assert repr(analysis.configured("extremes", ["tail=1", "count=2"]).tail) == "1.0"
    assert analysis.configured("variances", ["isotropic=12"]).isotropic == "12"


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"format": "other"}', '{"format": "pcme-analysis-1"}',
        '{"format": "pcme-analysis-1", "analysis": "none", "about": {}, "result": {}}',
        '{"format": "pcme-analysis-1", "analysis": "bins", "about": {}, "result": {}}',
        '{"format": "pcme-analysis-1", "analysis": "bins", "about": {}, "result": {"ways": 3}}',
    ],
)  # fmt: skip
def test_other_files_are_refused(tmp_path, text):
    (tmp_path / "found.json").write_text(text)
    with pytest.raises(FormatError, match=r"found\.json"):
        analysis.read(tmp_path / "found.json")
