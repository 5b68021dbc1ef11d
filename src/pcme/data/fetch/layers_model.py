"""Models of TensorFlow.js on disk: model.json names the tensors, shards hold their numbers one after the other."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32

from pcme.data.text_files import inside, json_document
from pcme.errors import FormatError

LARGEST = 2**28
"""Numbers in one tensor; those of VGG's first dense layer are 2^26.6."""

Tensors = dict[str, Float32[np.ndarray, "..."]]


def read_layers_model(folder: Path) -> Tensors:
    """The tensors of a layers model by name, float32 and finite; the network's description is not read."""
    path = folder / "model.json"
    if not path.is_file():
        raise FormatError(f"{path}: is missing. Fetch the model again.")
    tensors: Tensors = {}
    for paths, entries in _groups(json_document(path), path):
        data = b"".join(_shard(folder, name) for name in paths)
        for name, values in _read(entries, data, path):
            if name in tensors:
                raise _wrong(path, f"{name} is there twice")
            tensors[name] = values
    return tensors


def _groups(document: Any, path: Path) -> list[tuple[list[Any], list[Any]]]:  # noqa: ANN401 - JSON
    """The files and the tensors of every group of weights."""
    try:
        groups = [(group["paths"], group["weights"]) for group in document["weightsManifest"]]
    except (KeyError, TypeError) as error:
        raise _wrong(path, f"it lacks {error}") from error
    if not all(isinstance(part, list) for group in groups for part in group):
        raise _wrong(path, "a group of weights has no list of paths or weights")
    return groups


def _shard(folder: Path, name: Any) -> bytes:  # noqa: ANN401 - JSON
    """The bytes of one file, which must lie in the folder."""
    within = inside(folder, name) if isinstance(name, str) else None
    if within is None or not (folder / within).is_file():
        raise FormatError(f"{folder}: has no shard {str(name)!r:.80}, which model.json names. Fetch the model again.")
    return (folder / within).read_bytes()


def _read(entries: Sequence[Any], data: bytes, path: Path) -> Iterator[tuple[str, Float32[np.ndarray, "..."]]]:
    """Every tensor of a group: together they must be exactly its bytes."""
    start = 0
    for entry in entries:
        name, shape = _judged(entry, path)
        count = math.prod(shape)
        if start + 4 * count > len(data):
            raise _wrong(path, f"the shards end within {name}")
        values = np.frombuffer(data, "<f4", count, start).reshape(shape)
        if not np.isfinite(values).all():
            raise _wrong(path, f"{name} has NaN or infinite numbers")
        yield name, values
        start += 4 * count
    if start != len(data):
        raise _wrong(path, f"the shards hold {len(data):,} bytes, its tensors {start:,}")


def _judged(entry: Any, path: Path) -> tuple[str, list[int]]:  # noqa: ANN401 - JSON
    """The name and the shape of a tensor, if they can be true."""
    if not isinstance(entry, dict) or not isinstance(name := entry.get("name"), str):
        raise _wrong(path, f"a tensor without a name, {str(entry)!r:.80}")
    shape = entry.get("shape")
    if not isinstance(shape, list) or not all(map(_is_size, shape)) or math.prod(shape) > LARGEST:
        raise _wrong(path, f"{name} of the shape {str(shape)!r:.80}")
    if entry.get("dtype") != "float32" or "quantization" in entry:
        raise _wrong(path, f"{name} is not plain float32")
    return name, shape


def _is_size(value: Any) -> bool:  # noqa: ANN401 - JSON
    return type(value) is int and value >= 0


def _wrong(path: Path, fault: str) -> FormatError:
    return FormatError(f"{path}: not a layers model of float32 tensors, got {fault}. Fetch the model again.")
