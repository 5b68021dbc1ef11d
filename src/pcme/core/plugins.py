"""Plugins: modules outside the package that register scores, methods, datasets and the like.

A distribution lists its modules in the entry-point group `pcme.plugins`; a loose module or file is named by `pcme
--plugin` or in `$PCME_PLUGINS`, which child processes inherit. Importing a plugin registers its classes.
"""

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path

from pcme.errors import ConfigError

GROUP = "pcme.plugins"
VARIABLE = "PCME_PLUGINS"
"""Names of modules or paths of files, separated as in $PATH."""

_loaded = False
_failure: ConfigError | None = None
_files: dict[str, Path] = {}
"""The plugins that are loose files, by the names of their modules."""


def load_all() -> None:
    """Import every plugin that is installed or named in $PCME_PLUGINS, once per process.

    A plugin that cannot be imported is an error at every lookup, not at the first one alone.
    """
    global _loaded, _failure
    if _failure is not None:
        raise _failure
    if _loaded:
        return
    _loaded = True  # before the imports: a plugin may look names up
    try:
        for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
            owner = entry.dist.name if entry.dist else "an unknown distribution"
            with _explained(f'plugin "{entry.name}" of {owner}'):
                entry.load()
        for name in _enabled():
            load(name)
    except ConfigError as error:
        _failure = error
        raise


def enable(names: Sequence[str]) -> None:
    """Add plugins to $PCME_PLUGINS, for this process and its children."""
    plugins = [str(_checked_file(name)) if _is_file(name) else name for name in names]
    if plugins:
        os.environ[VARIABLE] = os.pathsep.join(dict.fromkeys([*_enabled(), *plugins]))
    for name in plugins if _loaded else ():
        load(name)


def load(name: str) -> None:
    """Import one plugin: a module's dotted name, or the path of a Python file."""
    with _explained(f'plugin "{name}"'):
        if _is_file(name):
            _import_file(_checked_file(name))
        else:
            importlib.import_module(name)


def origin(module: str) -> str:
    """Return where a module comes from: "built-in", a plugin's file, or its top-level module."""
    top = module.partition(".")[0]
    return "built-in" if top == "pcme" else str(_files.get(module, top))


def _enabled() -> list[str]:
    return [name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name]


def _is_file(name: str) -> bool:
    return name.endswith(".py") or os.sep in name


def _checked_file(name: str) -> Path:
    path = Path(name).resolve()
    if not path.is_file():
        raise ConfigError(f"plugin {path}: no such file. Give a Python file or a module's name.")
    return path


def _import_file(path: Path) -> None:
    """Import a file under a name of its own, so that two files may share a stem."""
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if name in sys.modules:
        return
    if spec is None or spec.loader is None:
        raise ConfigError(f"plugin {path}: not a Python file. Give one that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name], _files[name] = module, path
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name], _files[name]
        raise


@contextmanager
def _explained(plugin: str) -> Iterator[None]:
    """Name the plugin in an error of its import, which may be any."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{plugin}: {error}") from error
    except Exception as error:
        fault = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{plugin} cannot be imported, got {fault}. Fix it or remove it.") from error
