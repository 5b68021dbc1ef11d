"""The state of a run on disk: after a crash at any moment, the newest checkpoint is whole.

::

    checkpoints/step-00001234/
        model.safetensors, …    tensors by name
        state.json, …           records
        manifest.json           written last: format, step, size and SHA-256 of every other file

A checkpoint is written under a hidden name, made durable, and only then renamed: whoever sees the name sees all of it.
Damage by the disk is found by size and digest, and the checkpoint passed over. A step saved again is
`step-00001234-1`, and so on, so that there is no moment without either.
"""

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import safetensors.torch
from jaxtyping import Shaped
from safetensors import SafetensorError
from torch import Tensor

from pcme.core.files import hidden, sync, write_new
from pcme.errors import ConfigError, FormatError

FORMAT_VERSION = 1
Packed = dict[str, Shaped[Tensor, "..."]]
Tensors = Mapping[str, Shaped[Tensor, "..."]]
_NAME = re.compile(r"step-(\d{8,})(?:-(\d+))?")
_PART = re.compile(r"(?!manifest$)[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is whole, and the faults of each newer one that is not."""

    folder: Path
    step: int
    passed_over: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def tensors(self, name: str) -> Packed:
        """The tensors saved under this name, bit for bit, on the CPU."""
        loaded = safetensors.torch.load(self._read(f"{name}.safetensors"))
        # Copies lie where torch lays tensors: the last bits of a product can depend on that.
        return {key: tensor.clone() for key, tensor in loaded.items()}

    def record(self, name: str) -> Any:  # noqa: ANN401 - whatever JSON holds
        """The record saved under this name; tuples in it have become lists."""
        return json.loads(self._read(f"{name}.json"))

    def _read(self, file: str) -> bytes:
        if file not in self.digests:
            raise FormatError(f"{self.folder}: no {file}, got {', '.join(sorted(self.digests)) or 'nothing'}.")
        try:
            return _contents(self.folder / file, self.digests[file])
        except (OSError, ValueError) as error:
            raise FormatError(f"{self.folder}: has changed, got {error}. Look again.") from error


def save(folder: Path, step: int, tensors: Mapping[str, Tensors], records: Mapping[str, object], keep: int = 2) -> Path:
    """The new checkpoint of a step in the folder of a run's checkpoints; the `keep` newest stay.

    When it fails or is interrupted, the checkpoints that were there before are untouched.
    """
    if wrong := [name for name in (*tensors, *records) if not _PART.fullmatch(name)]:
        raise ConfigError(f'"{wrong[0]}": cannot name a part of a checkpoint. Use a-z, A-Z, 0-9, _.')
    if step < 0 or keep < 1:
        raise ConfigError(f"a checkpoint needs step ≥ 0 and keep ≥ 1, got {step} and {keep}.")
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            sync(folder.parent)
        final = _write(folder, step, _files(tensors, records))
    except (OSError, SafetensorError) as error:
        raise FormatError(
            f"{folder}: the checkpoint of step {step} cannot be written, got {error}. Make room or check the folder, "
            "then resume: the checkpoints before it are untouched."
        ) from error
    _prune(folder, final, keep)
    return final


def newest(folder: Path) -> Checkpoint | None:
    """The newest of these checkpoints that is whole, every byte of it; None without one.

    Safe beside a process that saves and removes older checkpoints in the meantime.
    """
    while True:
        listed, notes = _listed(folder), list[str]()
        for path in listed:
            outcome = _examine(path)
            if isinstance(outcome, Checkpoint):
                return replace(outcome, passed_over=tuple(notes))
            if path.exists():
                notes.append(outcome)
        if _listed(folder) == listed:
            return None


def damaged(folder: Path) -> tuple[str, ...]:
    """The faults of the checkpoints that are not whole, newest first."""
    return tuple(outcome for outcome in map(_examine, _listed(folder)) if isinstance(outcome, str))


def last_good(folder: Path) -> str:
    """The checkpoint that a run can resume from, in words."""
    whole = newest(folder)
    return f"the last good state is {whole.folder}" if whole else "there is no checkpoint yet"


def clean(folder: Path) -> None:
    """Remove the remains of interrupted saves; only for the one process that saves here."""
    for path in folder.glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)


def flatten_optimiser(state_dict: Mapping[str, object]) -> tuple[Packed, object]:
    """(tensors by name, not copied; all the rest, for JSON) of the state of a torch optimiser.

    >>> tensors, record = flatten_optimiser({"state": {0: {"step": 2, "mean": Tensor([1, 2])}}})
    >>> list(tensors), unflatten_optimiser(tensors, record)
    (['state.0.mean'], {'state': {0: {'step': 2, 'mean': tensor([1., 2.])}}})
    """
    tensors: Packed = {}
    return tensors, _packed(state_dict, "", tensors)


def unflatten_optimiser(tensors: Tensors, record: object) -> dict[str, Any]:
    """The state that `flatten_optimiser` took apart: the same keys, values and types."""
    try:
        state = _unpacked(record, tensors)
        if isinstance(state, dict):
            return state
        raise TypeError(f"a {type(state).__name__}")
    except (LookupError, TypeError, ValueError) as error:
        raise FormatError(f"not the state of an optimiser, got {error!r}. Save it again.") from error


def _files(tensors: Mapping[str, Tensors], records: Mapping[str, object]) -> Iterator[tuple[str, bytes]]:
    """(name, contents) of each file, one in memory at a time."""
    for name, part in tensors.items():
        # Copies: safetensors takes neither memory that is shared nor memory with gaps.
        alone = {key: t.detach().cpu().contiguous().clone() for key, t in part.items()}
        yield f"{name}.safetensors", safetensors.torch.save(alone, {"format": "pt"})
    for name, record in records.items():
        try:
            if _has_odd_keys(record):
                raise TypeError("it has keys that are not text")
            text = json.dumps(record)
        except (TypeError, ValueError, RecursionError) as error:
            raise FormatError(f'record "{name}": not JSON, got {error}. Convert it first.') from error
        yield f"{name}.json", text.encode()


def _has_odd_keys(value: object) -> bool:
    """Whether a dict in it has keys that JSON would write, but give back as text."""
    if isinstance(value, dict):
        return any(not isinstance(k, str) or _has_odd_keys(v) for k, v in value.items())
    return isinstance(value, list | tuple) and any(map(_has_odd_keys, value))


def _write(folder: Path, step: int, files: Iterator[tuple[str, bytes]]) -> Path:
    draft = hidden(folder / f"step-{step:08d}")
    try:
        draft.mkdir()
        entries = {}
        for file, data in files:
            write_new(draft / file, data)
            entries[file] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        manifest = {"format_version": FORMAT_VERSION, "step": step, "files": entries}
        write_new(draft / "manifest.json", json.dumps(manifest).encode())
        sync(draft)
        # A name that sorts after all others of the same step.
        last = max((again for saved, again in map(_order, _listed(folder)) if saved == step), default=None)
        final = folder / (f"step-{step:08d}" + ("" if last is None else f"-{last + 1}"))
        os.replace(draft, final)
        sync(folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return final


def _listed(folder: Path) -> list[Path]:
    """The checkpoints, newest first, whole or not."""
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted((folder / n for n in names if _NAME.fullmatch(n)), key=_order, reverse=True)


def _order(path: Path) -> tuple[int, int]:
    """(step, how many times it had been saved before)."""
    step, _, again = path.name.removeprefix("step-").partition("-")
    return int(step), int(again or 0)


def _prune(folder: Path, final: Path, keep: int) -> None:
    """Remove others of the new checkpoint's step, and all that `keep` whole ones have followed."""
    whole = 1
    for path in [path for path in _listed(folder) if _order(path) < _order(final)]:
        if _order(path)[0] == _order(final)[0] or whole == keep:
            trash = hidden(path)
            with suppress(OSError):  # it stays: no reason to fail after all was saved
                os.replace(path, trash)  # at once: half a checkpoint is never seen
                shutil.rmtree(trash, ignore_errors=True)
        else:
            whole += isinstance(_examine(path, hashed=False), Checkpoint)


def _examine(path: Path, *, hashed: bool = True) -> Checkpoint | str:
    """The checkpoint in a folder, or its fault, as far as sizes, or digests, tell."""
    try:
        manifest = json.loads((path / "manifest.json").read_bytes())
        if (version := manifest["format_version"]) != FORMAT_VERSION:
            raise ValueError(f"its format is {version!r}, not {FORMAT_VERSION}")
        if (step := manifest["step"]) != _order(path)[0]:
            raise ValueError(f"its manifest is of step {step!r}")
        for file, entry in manifest["files"].items():
            if (size := (path / file).stat().st_size) != entry["size"]:
                raise ValueError(f"{file} has {size} bytes instead of {entry['size']}")
            if hashed:
                _contents(path / file, entry["sha256"])
        digests = {file: entry["sha256"] for file, entry in manifest["files"].items()}
    except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        return f"{path.name} is damaged: {error}"
    return Checkpoint(path, step, digests=digests)


def _contents(path: Path, digest: str) -> bytes:
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != digest:
        raise ValueError(f"{path.name} was altered: its SHA-256 differs")
    return data


def _packed(value: object, name: str, tensors: Packed) -> object:
    """The value for JSON; its tensors go into `tensors`, named after their place."""
    if isinstance(value, Tensor):
        while name in tensors:  # the keys 0 and "0" of one dict
            name += "'"
        tensors[name] = value.detach()
        return {"tensor": name}
    if isinstance(value, Mapping) and all(type(key) in (int, str) for key in value):
        name += "." if name else ""
        return {"dict": [[k, _packed(v, f"{name}{k}", tensors)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        parts = [_packed(part, f"{name}.{n}", tensors) for n, part in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": parts}
    if isinstance(value, float) and not math.isfinite(value):  # JSON has no word for these
        return {"float": str(float(value))}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise FormatError(f"an optimiser's state with {value!r:.60} at {name} cannot be saved")


def _unpacked(record: object, tensors: Tensors) -> object:
    if not isinstance(record, dict):
        return record
    ((kind, content),) = record.items()
    if kind == "dict":
        return {key: _unpacked(value, tensors) for key, value in content}
    if kind in ("list", "tuple"):
        return (tuple if kind == "tuple" else list)(_unpacked(part, tensors) for part in content)
    return float(content) if kind == "float" else tensors[content]
