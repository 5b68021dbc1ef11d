"""The catalogue of recipes: registered where they are written, found by name, compared."""

from typing import Any

from pcme.core import plugins
from pcme.core.registry import did_you_mean
from pcme.errors import ConfigError
from pcme.recipes.schema import Recipe

_ALL: dict[str, Recipe] = {}


def register(recipe: Recipe) -> Recipe:
    """Add a recipe to the catalogue, under its name."""
    if recipe.name in _ALL:
        raise ConfigError(f'recipe "{recipe.name}": is already registered. Use another name.')
    return _ALL.setdefault(recipe.name, recipe)


def variant(base: Recipe, name: str, **changes: object) -> Recipe:
    """Register a recipe that differs from another in these keys."""
    return register(base.model_copy(update={"name": name, **changes}))


def registered() -> frozenset[str]:
    """The names so far: plugins are not loaded for this."""
    return frozenset(_ALL)


def names() -> list[str]:
    """All names, those of plugins among them, sorted."""
    plugins.load_all()
    return sorted(_ALL)


def get(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in names():
        hint = did_you_mean(name, _ALL)
        raise ConfigError(f'unknown recipe "{name}".{hint} Known recipes: {", ".join(names())}.')
    return _ALL[name]


def difference(recipe: Recipe, base: Recipe) -> dict[str, tuple[Any, Any]]:
    """{key: (base's value, recipe's value)} of the keys in which they differ."""
    left, right = _flat(base.record()), _flat(recipe.record())
    keys = [*left, *(key for key in right if key not in left)]
    return {key: (left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)}


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:  # noqa: ANN401 - JSON
    items = value.items() if isinstance(value, dict) else enumerate(value)
    flat: dict[str, Any] = {}
    for key, inner in items:
        path = f"{prefix}{key}"
        flat |= _flat(inner, f"{path}.") if isinstance(inner, (dict, list)) else {path: inner}
    return flat
