"""Folders that are written to: made if need be, or an error before any work is done."""

from pathlib import Path

from pcme.errors import ConfigError

__all__ = ["made"]


def made(folder: str | Path, role: str) -> Path:
    """The folder, made if need be; `role` says what it is wanted for, as in "the run's folder"."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"{target} cannot be {role} - {error.strerror or error} - give another folder (--out)"
        ) from error
    return target
