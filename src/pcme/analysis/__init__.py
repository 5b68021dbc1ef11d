"""Analyses by name. A new analysis is one class in one file, which computes and draws.

    subject = analysis.open_run("runs/aviary", split="test") for name in analysis.applicable(subject):
        asked = analysis.create(name) result = asked.compute(subject) figure = asked.figure(result, subject)

The split is embedded once, when the first analysis asks for it; `Subject.of(model, embedded)` is
the subject of a split that has been embedded before.

>>> "bins" in names()
True
"""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, cast

from pcme import methods
from pcme.analysis.base import Analysis, Number, Result, Subject, registry
from pcme.analysis.storage import Stored, read, record, write
from pcme.errors import ConfigError
from pcme.evaluation.open_run import open_run
from pcme.methods.base import GaussianMethod

__all__ = [
    "Analysis",
    "Number",
    "Result",
    "Stored",
    "Subject",
    "applicable",
    "configured",
    "create",
    "names",
    "open_run",
    "read",
    "record",
    "registry",
    "require",
    "write",
]


def create(name: str, **params: object) -> Analysis[Any]:
    """The analysis called `name`, with these parameters."""
    return registry.create(name, **params)


def configured(name: str, assignments: Sequence[str]) -> Analysis[Any]:
    """The analysis called `name` with some parameters set, as text: "bins=5".

    >>> configured("bins", ["bins=5"])
    BinsAnalysis(bins=5)
    """
    given = {}
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set: needs key=value, got {assignment!r}.")
        given[key] = value
    defaults = {f.name: f.default for f in dataclasses.fields(cast("Any", registry.get(name)))}
    values = {key: _like(defaults.get(key), key, value) for key, value in given.items()}
    return registry.create(name, **values)


def names() -> list[str]:
    """All names, sorted."""
    return registry.names()


def applicable(subject: Subject) -> list[str]:
    """The names of the analyses that can be made of a model and a split."""
    return [name for name in names() if create(name).obstacle(subject) is None]


def require(name: str, subject: Subject) -> None:
    """Refuse an analysis that cannot be made here, and name those that can."""
    obstacle = create(name).obstacle(subject)
    if obstacle is None:
        return
    message = f'analysis "{name}": {obstacle}. For this run: {", ".join(applicable(subject))}.'
    if not subject.has_sigma and "sigma" in obstacle:
        message += f" Methods with a sigma: {', '.join(_with_sigma())}."
    raise ConfigError(message)


def _with_sigma() -> list[str]:
    """The methods whose classes have a σ unless it is switched off; none is created."""
    classes = {name: methods.registry.get(name) for name in methods.names()}
    return [
        name for name, method in classes.items() if issubclass(method, GaussianMethod) and method.covariance != "none"
    ]


def _like(default: object, key: str, text: str) -> object:
    """The text as a value of the default's type: a parameter is a number or a text."""
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
