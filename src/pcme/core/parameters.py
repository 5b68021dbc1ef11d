"""Parameters as a user types them: "samples=7" is a number where the default is one."""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any, cast

from pcme.core.registry import Registry
from pcme.errors import ConfigError


def assigned(registry: Registry[Any], name: str, assignments: Iterable[str], *, option: str) -> dict[str, object]:
    """{parameter: value} of assignments to the class called `name`, in the types of its defaults.

    `option` is what an error calls the place. A parameter that the class lacks stays text: `create` refuses it.
    """
    fields = dataclasses.fields(cast("Any", registry.get(name)))
    defaults = {field.name: field.default for field in fields}
    values = {}
    for assignment in assignments:
        key, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise ConfigError(f"{option}: needs key=value, got {assignment!r}.")
        values[key] = typed(defaults.get(key), key, text)
    return values


def typed(default: object, key: str, text: str) -> object:
    """The text as a value of the default's type: a parameter is a number or a text.

    >>> typed(7, "samples", "3"), typed(1.0, "scale", "3"), typed("analytic", "method", "sampled")
    (3, 3.0, 'sampled')
    """
    if not isinstance(default, (int, float)):
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    kinds = (int,) if isinstance(default, int) else (int, float)
    if type(value) not in kinds:
        what = "a whole number" if isinstance(default, int) else "a number"
        raise ConfigError(f"{key}: must be {what}, such as {default}, got {text!r}.")
    return type(default)(value)
