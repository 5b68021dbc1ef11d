"""Parameters as a user types them: the types of the defaults, and errors that name the place."""

from dataclasses import dataclass

import pytest

from pcme.core.parameters import assigned, typed
from pcme.core.registry import Registry
from pcme.errors import ConfigError

tools = Registry("tool")


@tools.register("saw")
@dataclass(frozen=True)
class Saw:
    """Cuts."""

    teeth: int = 7
    length: float = 1.0
    kind: str = "hand"


def test_values_have_the_types_of_the_defaults():
    found = assigned(tools, "saw", ["teeth=3", " length = 2 ", "kind=7"], option="--set")
    assert found == {"teeth": 3, "length": 2.0, "kind": "7"}
    assert [type(value) for value in found.values()] == [int, float, str]
    assert assigned(tools, "saw", ["tooth=3"], option="--set") == {"tooth": "3"}, "for the registry to refuse"
    with pytest.raises(ConfigError, match='Did you mean "teeth"'):
        tools.create("saw", tooth="3")


@pytest.mark.parametrize(
    ("default", "text", "message"),
    [
        (7, "3.5", "teeth: must be a whole number, such as 7, got '3.5'"),
        (7, "true", "a whole number"),
        (1.0, "long", "a number, such as 1.0, got 'long'"),
    ],
)
def test_what_is_no_number_is_refused(default, text, message):
    with pytest.raises(ConfigError, match=message):
        typed(default, "teeth", text)


def test_an_assignment_needs_a_value_and_the_error_says_where():
    with pytest.raises(ConfigError, match=r"score \"saw\": needs key=value, got 'teeth'"):
        assigned(tools, "saw", ["teeth"], option='score "saw"')
