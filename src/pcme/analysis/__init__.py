"""Analyses by name. A new analysis is one class in one file, which computes and draws.

    subject = analysis.open_run("runs/aviary", split="test")
    for name in analysis.applicable(subject):
        result = analysis.create(name).compute(subject)
        figure = analysis.create(name).figure(result, subject)

The split is embedded once, when the first analysis asks for it; `Subject.of(model, embedded)` is the subject of a
split that has been embedded before.

>>> "bins" in names()
True
"""

from collections.abc import Sequence
from typing import Any

from pcme import methods
from pcme.analysis.base import Analysis as Analysis
from pcme.analysis.base import Number as Number
from pcme.analysis.base import Result as Result
from pcme.analysis.base import Subject as Subject
from pcme.analysis.base import registry as registry
from pcme.analysis.storage import Stored as Stored
from pcme.analysis.storage import read as read
from pcme.analysis.storage import record as record
from pcme.analysis.storage import write as write
from pcme.core.parameters import assigned
from pcme.errors import ConfigError
from pcme.evaluation.open_run import open_run as open_run
from pcme.methods.base import GaussianMethod

create = registry.create
names = registry.names


def configured(name: str, assignments: Sequence[str]) -> Analysis[Any]:
    """The analysis called `name` with some parameters set, as text: "bins=5".

    >>> configured("bins", ["bins=5"])
    BinsAnalysis(bins=5, protocol='whole')
    """
    return registry.create(name, **assigned(registry, name, assignments, option="--set"))


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
    known = {name: methods.registry.get(name) for name in methods.names()}
    return [name for name, kind in known.items() if issubclass(kind, GaussianMethod) and kind.covariance != "none"]
