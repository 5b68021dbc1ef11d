"""Analyses by name. Every module of this package is imported, so a new analysis is one file.

    subject = analysis.Subject.of(model, evaluation.embed(model, dataset, Problems()))
    for name in analysis.applicable(subject):
        result = analysis.create(name).compute(subject)

>>> "bins" in names()
True
"""

import importlib
import pkgutil

from pcme import methods
from pcme.analysis.base import Analysis, Number, Progress, Result, Subject, registry
from pcme.analysis.records import Stored, read, write
from pcme.errors import ConfigError

__all__ = [
    "Analysis",
    "Number",
    "Progress",
    "Result",
    "Stored",
    "Subject",
    "applicable",
    "create",
    "names",
    "read",
    "registry",
    "require",
    "write",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def create(name: str, **params: object) -> Analysis:
    """The analysis called `name`, with these parameters."""
    return registry.create(name, **params)


def names() -> list[str]:
    """All names, sorted."""
    return registry.names()


def applicable(subject: Subject) -> list[str]:
    """The names of the analyses that can be made of a model and a split."""
    return [name for name in names() if create(name).obstacle(subject) is None]


def require(name: str, subject: Subject) -> None:
    """Refuse an analysis that cannot be made here, and say what can, and what would help."""
    obstacle = create(name).obstacle(subject)
    if obstacle is None:
        return
    message = f'analysis "{name}" {obstacle} - for this run: {", ".join(applicable(subject))}'
    if not subject.has_sigma and "sigma" in obstacle:
        message += f"; methods with a sigma: {', '.join(_with_sigma())}"
    raise ConfigError(message)


def _with_sigma() -> list[str]:
    made = {name: methods.create(name) for name in methods.names()}
    return [name for name, method in made.items() if method.heads(2).covariance != "none"]
