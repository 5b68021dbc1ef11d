"""Scores as a user writes them: names, aliases, parameters; and what is wrong with others."""

import re

import pytest

from pcme import scores
from pcme.errors import ConfigError
from pcme.scores.spec import Spec
from tests.helpers import unless_annotations_are_enforced


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mean", [("mean", {})]),
        (" js , mean,jeffreys", [("jeffreys", {}), ("mean", {})]),
        ("match_prob:samples=7,method=sampled", [("match_prob", {"samples": 7, "method": "sampled"})]),
        (
            "csd,match_prob: samples = 3,seed=2,overlap:scale=4,kl",
            [("csd", {}), ("match_prob", {"samples": 3, "seed": 2}), ("overlap", {"scale": 4.0}), ("kl", {})],
        ),
        ("ppk:rho=0.5,ppk:rho=1", [("ppk", {"rho": 0.5}), ("ppk", {"rho": 1.0})]),
        (
            ["match_prob:samples=3,method=sampled", "w2"],
            [("match_prob", {"samples": 3, "method": "sampled"}), ("w2", {})],
        ),
    ],
)
def test_parameters_belong_to_the_score_before_them(text, expected):
    assert [(spec.name, dict(spec.params)) for spec in Spec.parse_all(text)] == expected


def test_a_score_is_made_with_what_is_set():
    assert Spec.parse("match_prob:samples=3,method=sampled").make() == scores.create(
        "match_prob", samples=3, method="sampled"
    )
    learned = scores.create("match_prob", scale=3.0, shift=2.0)
    assert Spec.parse("match_prob:samples=3").of(learned) == scores.create(
        "match_prob", scale=3.0, shift=2.0, samples=3
    )
    assert Spec.parse("overlap:scale=3").of(learned) == scores.create("overlap", scale=3.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no name"),
        (",", "no name"),
        ("maen", 'Did you mean "mean"'),
        ("samples=3", 'unknown score "samples=3"'),
        ("match_prob:sampels=3", '"sampels" is not a field of score "match_prob". Did you mean "samples"?'),
        ("match_prob:samples=many", "samples: must be a whole number, such as 7, got 'many'"),
        ("match_prob:samples=0", "samples must be ≥ 1"),
        ("match_prob:samples", "needs key=value, got 'samples'"),
        ("match_prob:", "needs key=value, got ''"),
        pytest.param("match_prob:method=sampeld", 'unknown method "sampeld"', marks=unless_annotations_are_enforced),
        ("mean:samples=3", '"samples" is not a field of score "mean". It has no fields.'),
    ],
)
def test_mistakes_are_explained(text, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        Spec.parse_all(text)


def test_one_is_not_several():
    with pytest.raises(ConfigError, match="must be one, got 2 in 'mean,csd'"):
        Spec.parse("mean,csd")
