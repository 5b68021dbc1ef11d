"""Registry: from the name a user types to the class it means.

Scores, methods, datasets, backbones, analyses and experiments are frozen dataclasses whose fields are their parameters.
A registry finds the class and explains a wrong name or field. Its own package and the plugins (`pcme.core.plugins`) are
imported at the first lookup.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from threading import RLock
from typing import Any, Generic, TypeVar, cast

from pcme.core import plugins
from pcme.errors import ConfigError

T = TypeVar("T")
C = TypeVar("C")

_discovering = RLock()


class Registry(Generic[T]):
    """Maps names to the classes of one kind; `packages` are where the built-in ones are written.

    >>> from dataclasses import dataclass
    >>> shapes: Registry[object] = Registry("shape")
    >>> @shapes.register("circle", aliases=("disc",))
    ... @dataclass(frozen=True)
    ... class Circle:
    ...     '''All points within `radius` of the centre.'''
    ...     radius: float = 1.0
    >>> shapes.names(), shapes.aliases()
    (['circle'], {'disc': 'circle'})
    >>> shapes.create("disc", radius=2.0)
    Circle(radius=2.0)
    >>> shapes.create("circel")
    Traceback (most recent call last):
    pcme.errors.ConfigError: unknown shape "circel". Did you mean "circle"? Known shapes: circle.
    """

    def __init__(self, kind: str, *packages: str) -> None:
        self.kind, self.packages = kind, packages
        self._classes: dict[str, type[T]] = {}
        self._aliases: dict[str, str] = {}
        self._discovered = not packages

    def register(self, name: str, *, aliases: Iterable[str] = ()) -> Callable[[type[C]], type[C]]:
        """Return a decorator that files a class under `name`, and under each alias."""
        others = tuple(aliases)

        def add(cls: type[C]) -> type[C]:
            taken = {**{known: known for known in self._classes}, **self._aliases}
            for position, new in enumerate((name, *others)):
                if new in taken or new in (name, *others)[:position]:
                    owner = self._classes[taken[new]].__qualname__ if new in taken else "this class"
                    raise ConfigError(f'{self.kind} "{new}" is already registered, by {owner}. Use another name.')
            self._classes[name] = cast("type[T]", cls)
            self._aliases.update(dict.fromkeys(others, name))
            return cls

        return add

    def names(self) -> list[str]:
        """Return the canonical names, sorted; aliases are left out."""
        self._discover()
        return sorted(self._classes)

    def aliases(self) -> dict[str, str]:
        """Return {alias: canonical name}, sorted by alias."""
        self._discover()
        return dict(sorted(self._aliases.items()))

    def get(self, name: str) -> type[T]:
        """Return the class called `name`, which may be an alias."""
        self._discover()
        canonical = self._aliases.get(name, name)
        if canonical not in self._classes:
            hint = did_you_mean(name, [*self._classes, *self._aliases])
            known = ", ".join(self.names()) or "none"
            raise ConfigError(f'unknown {self.kind} "{name}".{hint} Known {_plural(self.kind)}: {known}.')
        return self._classes[canonical]

    def fields(self, name: str) -> list[str]:
        """Return the names of the parameters of the class called `name`."""
        return [field.name for field in _fields(self.get(name))]

    def create(self, name: str, **params: object) -> T:
        """Return the class called `name`, built with `params`.

        Only the names of the parameters are checked here; their values are the class's business.
        """
        cls = self.get(name)
        self._check_fields(name, cls, params)
        return cast("Callable[..., T]", cls)(**params)

    def from_record(self, record: Mapping[str, object]) -> T:
        """Return what `record` describes: {"kind": name, **fields}."""
        fields = {key: value for key, value in record.items() if key != "kind"}
        return self.create(str(record["kind"]), **fields)

    def name_of(self, cls: type) -> str:
        """Return the name a class is registered under."""
        self._discover()
        for name, known in self._classes.items():
            if known is cls:
                return name
        remedy = 'Decorate it with @registry.register("name")'
        raise ConfigError(f"{cls.__qualname__} is not a registered {self.kind}. {remedy}.")

    def origin(self, name: str) -> str:
        """Return where a class comes from: "built-in", or its plugin."""
        return plugins.origin(self.get(name).__module__)

    def summary(self, name: str) -> str:
        """Return the first line of the docstring of the class called `name`."""
        return (inspect.getdoc(self.get(name)) or "").partition("\n")[0]

    def _discover(self) -> None:
        """Import the registry's packages and the plugins, once."""
        with _discovering:
            if self._discovered:
                return
            self._discovered = True  # before the imports: what they import may look names up
            try:
                for package in self.packages:
                    _import_all(package)
                plugins.load_all()
            except BaseException:
                self._discovered = False
                raise

    def _check_fields(self, name: str, cls: type[T], params: dict[str, object]) -> None:
        fields = {f.name: f.default is f.default_factory is dataclasses.MISSING for f in _fields(cls)}
        listing = f"Fields: {', '.join(fields)}." if fields else "It has no fields."
        for param in params:
            if param not in fields:
                hint = did_you_mean(param, fields)
                raise ConfigError(f'"{param}" is not a field of {self.kind} "{name}".{hint} {listing}')
        missing = [field for field, required in fields.items() if required and field not in params]
        if missing:
            raise ConfigError(f'{self.kind} "{name}" needs {", ".join(missing)}. {listing}')


def _import_all(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")


def _fields(cls: type) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(cast("Any", cls)) if field.init]


def _plural(kind: str) -> str:
    """
    >>> _plural("score"), _plural("analysis")
    ('scores', 'analyses')
    """
    return f"{kind.removesuffix('is')}es" if kind.endswith("is") else f"{kind}s"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ' Did you mean "..."?' with the nearest known name, or '' when none is near."""
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f' Did you mean "{near[0]}"?' if near else ""
