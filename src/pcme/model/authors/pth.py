"""A file of torch.save, read without executing anything.

An error is one line: torch's own message advises to load such a file unsafely, and is never shown.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pcme.errors import DataError, FormatError
from pcme.model.authors.sizes import Weights

_ZIP = b"PK\x03\x04"
_LEGACY = re.compile(rb"\x80.\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19", re.DOTALL)
"""How a file of torch before 1.6 starts: a pickle of its magic number."""
_CLASS = re.compile(r"GLOBAL ([\w.]+)")


@dataclass(frozen=True)
class Record:
    """The parts of a checkpoint that are used: weights by their own names, the rest unchanged."""

    model: Weights
    criterion: Weights
    config: Mapping[str, Any] | None
    word2idx: object
    metadata: Mapping[str, Any]


def read(path: Path) -> Record:
    """The checkpoint in a file; an error that names the kind of any other file."""
    _require_torch_file(path)
    whole = _load(path)
    if not isinstance(whole, Mapping):
        raise FormatError(
            f"{path}: not a checkpoint of the authors' trainer, got a {type(whole).__name__}. "
            "Give a file with model, criterion and word2idx."
        )
    if missing := [key for key in ("model", "criterion") if key not in whole]:
        raise FormatError(
            f"{path}: not a checkpoint of the authors' trainer, {', '.join(missing)} is missing, "
            f"got {', '.join(map(str, list(whole)[:5]))}. Give the file that the trainer wrote, whose criterion has "
            "the scale and shift of a match."
        )
    config, metadata = whole.get("config"), whole.get("metadata")
    if config is not None and not isinstance(config, Mapping):
        raise FormatError(f"{path}: config must be a dict, got {type(config).__name__}.")
    return Record(
        model=_named_tensors(whole["model"], f"{path}: model"),
        criterion=_named_tensors(whole["criterion"], f"{path}: criterion"),
        config=config,
        word2idx=whole.get("word2idx"),
        metadata=metadata if isinstance(metadata, Mapping) else {},
    )


def _require_torch_file(path: Path) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise DataError(f"{path}: cannot be read, got {error.strerror or error}.") from error
    if not start:
        raise FormatError(f"{path}: has 0 bytes. Download it again.")
    if not (start.startswith(_ZIP) or _LEGACY.match(start)):
        raise FormatError(
            f"{path}: not a file of torch.save, it starts with {start!r}. Is it a web page, or an archive that must be "
            "unpacked first?"
        )


def _load(path: Path) -> object:
    try:
        # Their metadata has scores, some of which are NumPy's numbers.
        with torch.serialization.safe_globals(_numpy_numbers()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes can make the reader raise nearly anything
        if named := _CLASS.search(str(error)):
            raise FormatError(
                f"{path}: must have tensors, numbers, words, lists and dicts alone, got {named[1]}; nothing in it was "
                "executed. Save it again without, or download the authors' own."
            ) from error
        raise FormatError(f"{path}: damaged, or cut short; nothing in it was executed. Download it again.") from error


def _numpy_numbers() -> list[Any]:
    """The function and classes that make a NumPy number, under the names of old and new versions."""
    scalar: Any = np.float64(0).__reduce__()[0]
    kinds = {type(np.dtype(code)) for code in ("f2", "f4", "f8", "i4", "i8", "bool")}
    names = [f"numpy.{core}.multiarray.scalar" for core in ("core", "_core")]
    return [*((scalar, name) for name in names), np.dtype, *kinds]


def _named_tensors(state: object, where: str) -> Weights:
    if not isinstance(state, Mapping) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in state.items()
    ):
        raise FormatError(f"{where} must be named tensors, got a {type(state).__name__}.")
    # Left behind by DataParallel, as their own loader knows.
    return {name.removeprefix("module."): value for name, value in state.items()}
