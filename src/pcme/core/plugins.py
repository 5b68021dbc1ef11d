"""Plugins: modules outside the package that register scores, methods, datasets and the like.

A distribution lists its modules in the entry-point group `pcme.plugins`; a loose module or file is
named by `pcme --plugin` or in `$PCME_PLUGINS`, which child processes inherit. Importing a plugin
registers its classes.
"""

import hashlib
import importlib
import importlib.util
import os
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from pcme.errors import ConfigError

__all__ = ["GROUP", "VARIABLE", "load", "load_installed"]

GROUP = "pcme.plugins"
VARIABLE = "PCME_PLUGINS"
"""Names of modules or paths of files, separated as in $PATH."""

_done = False


def load_installed() -> None:
    """Import every plugin that is installed or named in $PCME_PLUGINS, once per process."""
    global _done
    if _done:
        return
    _done = True
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        _load_entry(entry)
    for name in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        load(name)


def load(name: str) -> None:
    """Import one plugin: a module's dotted name, or the path of a Python file."""
    try:
        if name.endswith(".py") or os.sep in name:
            _import_file(Path(name).resolve())
        else:
            importlib.import_module(name)
    except ConfigError:
        raise
    except Exception as error:  # a plugin's code may fail in any way
        raise _failure(f'plugin "{name}"', error) from error


def _load_entry(entry: EntryPoint) -> None:
    try:
        entry.load()
    except Exception as error:
        owner = entry.dist.name if entry.dist else "an unknown distribution"
        raise _failure(f'plugin "{entry.name}" of {owner}', error) from error


def _import_file(path: Path) -> None:
    """Import a file under a name of its own, so that two files may share a stem."""
    if not path.is_file():
        raise ConfigError(f"plugin {path}: no such file. Give a Python file or a module's name.")
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if name in sys.modules or spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _failure(what: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"{what} cannot be imported, got {type(error).__name__}: {error}. Fix it or remove it."
    )
