"""Checks of the parameters that users set, with one grammar of errors."""

from pcme.errors import ConfigError


def require(field: str, valid: bool, rule: str, value: object) -> None:
    """Refuse the value of a field that breaks its rule.

    >>> require("scale", -1 > 0, "above 0", -1)
    Traceback (most recent call last):
    pcme.errors.ConfigError: scale: must be above 0, got -1.
    """
    if not valid:
        raise ConfigError(f"{field}: must be {rule}, got {value}.")


def require_known(field: str, value: object, known: tuple[object, ...]) -> None:
    """Refuse a value that is not among the known ones."""
    shown = f'"{value}"' if isinstance(value, str) else value
    require(field, value in known, f"one of {', '.join(map(str, known))}", shown)
