"""Output: progress never mixes with results."""

import json

import pytest

from pcme.cli.output import print_json, print_table, progress_bars


def test_without_a_terminal_a_bar_prints_nothing(capsys):
    with progress_bars() as progress:
        progress("train", 1, 2)
        progress("train", 2, 2)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_table_has_its_header_and_rows(capsys):
    print_table(("name", "what"), [("a", "first"), ("b", "second")])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["name", "what"], ["a", "first"], ["b", "second"]]


def test_json_is_readable_keeps_letters_and_has_no_number_that_is_none(capsys):
    print_json({"é": 1})
    assert capsys.readouterr().out == '{\n  "é": 1\n}\n'
    print_json({"a": [float("nan"), (1.5, float("inf"))], "b": {"c": -float("inf")}})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {
        "a": [None, [1.5, None]],
        "b": {"c": None},
    }
