"""Datasets by name or by path. A new dataset is one class in one file.

>>> "aviary" in names()
True
"""

import os
from pathlib import Path

from pcme.data.dataset import CaptionDataset
from pcme.data.layout import Dataset, recognised, registry
from pcme.data.problems import Problem, Problems
from pcme.data.sources import Files, ImageSource
from pcme.errors import ConfigError

__all__ = [
    "CaptionDataset",
    "Dataset",
    "Files",
    "ImageSource",
    "Problem",
    "Problems",
    "create",
    "find",
    "names",
    "registry",
]


def create(name: str, **params: object) -> Dataset:
    """The dataset called `name` (or its alias), with these parameters; `root` may be text."""
    if isinstance(root := params.get("root"), str):
        params["root"] = Path(root)
    return registry.create(name, **params)


def names() -> list[str]:
    """All canonical names, sorted."""
    return registry.names()


def find(name_or_path: str | Path, **params: object) -> Dataset:
    """Find a dataset by its name, such as "aviary" or "cub", or by a folder of a known layout.

    A name that needs files is looked for in the folder of that name below $PCME_DATA. `params` are
    further fields of the dataset.
    """
    text = str(name_or_path)
    if text in names() or text in registry.aliases():
        return _by_name(text, params)
    if Path(text).exists():
        return recognised(Path(text), **params)
    try:
        return _by_name(text, params)
    except ConfigError as error:
        raise ConfigError(f"{error} There is no folder of that name either.") from error


def _by_name(name: str, params: dict[str, object]) -> Dataset:
    cls = registry.get(name)
    if not cls.layout:
        return registry.create(name, **params)
    base = os.environ.get("PCME_DATA")
    root = Path(base or ".") / name
    if base and root.is_dir():
        return registry.create(name, **{**params, "root": root})
    given = f"PCME_DATA={base} has no folder {name}" if base else "PCME_DATA is not set"
    raise ConfigError(f'dataset "{name}": needs its files, {given}. Give the folder itself, with {cls.layout}.')
