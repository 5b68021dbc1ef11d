"""Datasets by name or by path. A new dataset is one class in one file.

>>> "aviary" in names()
True
"""

import os
from pathlib import Path

from pcme.data.dataset import CaptionDataset
from pcme.data.layout import Dataset, recognise, registry
from pcme.data.problems import Problems
from pcme.data.sources import ImageSource
from pcme.errors import ConfigError

__all__ = ["CaptionDataset", "Dataset", "ImageSource", "Problems", "create", "find", "names", "registry"]


def create(name: str, **params: object) -> Dataset:
    """The dataset called `name` (or its alias), with these parameters; `root` may be text."""
    if isinstance(root := params.get("root"), str):
        params["root"] = Path(root)
    return registry.create(name, **params)


def names() -> list[str]:
    """All canonical names, sorted."""
    return registry.names()


def find(name_or_path: str | Path, **params: object) -> Dataset:
    """Find a dataset by its name, with its files in the folder of that name below $PCME_DATA, or by its folder."""
    name, path = str(name_or_path), Path(name_or_path)
    try:
        cls = registry.get(name)
    except ConfigError as error:
        if path.exists():
            return recognise(path, **params)
        raise ConfigError(f"{error} There is no folder of that name either.") from error
    if not cls.layout:
        return registry.create(name, **params)
    base = os.environ.get("PCME_DATA")
    root = Path(base or ".") / name
    if base and root.is_dir():
        return registry.create(name, **{**params, "root": root})
    fault = f"PCME_DATA={base} has no folder {name}" if base else "PCME_DATA is not set"
    raise ConfigError(f'dataset "{name}": needs its files, {fault}. Give the folder itself, with {cls.layout}.')
