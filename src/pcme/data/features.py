"""FeatureCache: a frozen backbone's features of a dataset's images, computed once.

One folder per (images, transform, backbone): `features.npy` [n,s,d] in half precision, memory-
mapped, `usable.npy` [n], and `manifest.json`, written last. Its name ends in a digest of all that
the features depend on: the ids and stamps of the images (size and time of change of files), the
transform and the number of its draw, and the backbone's own digest. A changed file or backbone has
another digest, so stale features are never read. A computation that was cut short goes on where it
stopped.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from jaxtyping import Bool, Float, Float16, UInt8
from torch import Tensor, nn

from pcme import atomic
from pcme.data.batches import image_batches
from pcme.data.dataset import CaptionDataset
from pcme.data.problems import Problems
from pcme.data.streams import stream
from pcme.data.transforms import ImageTransform
from pcme.errors import ConfigError, FormatError, ShapeError

__all__ = ["FeatureCache", "digest_of_module"]

FORMAT_VERSION = 1
SAVE_EVERY = 16
"""Batches between two notes of how far the computation has come."""

Encode = Callable[[UInt8[Tensor, "b 3 h w"]], Float[Tensor, "b ..."]]


@dataclass(frozen=True, eq=False)
class FeatureCache:
    """Features [n,s,d], or maps [n,c,h,w], of a dataset's images, read from disk when asked for."""

    folder: Path
    features: Float16[np.ndarray, "n ..."]
    usable: Bool[np.ndarray, " n"]

    @classmethod
    def open_or_compute(
        cls,
        folder: Path,
        dataset: CaptionDataset,
        transform: ImageTransform,
        encode: Encode,
        *,
        backbone: str,
        view: int | None = None,
        batch_size: int = 32,
        workers: int = 2,
        problems: Problems | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> "FeatureCache":
        """The features below `folder`, computed first unless they are there already.

        `encode` maps pixels to features; `backbone` is the digest of what it computes, for example
        `digest_of_module(module)`. Of a random transform one draw is kept for every image, and
        `view` numbers it. `progress(done, total)` is called after every batch.
        """
        if not transform.deterministic and view is None:
            raise ConfigError(
                "features can be kept only when every epoch sees the same pixels - got a random "
                "transform - use ImageTransform.evaluation, number a view, or train on images"
            )
        seen = None if transform.deterministic else view
        name = f"{dataset.name}-{dataset.split}-{_digest(dataset, transform, backbone, seen)}"
        final = Path(folder) / name.replace(":", "-").replace("/", "-")
        final.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{final}.lock"):  # two runs that need the same features compute them once
            if not (final / "manifest.json").is_file():
                noted = problems if problems is not None else Problems()
                batches = _Batches(dataset, transform, seen, batch_size, workers, noted)
                _compute(final, len(dataset.images), batches, encode, progress)
        return cls.open(final)

    @classmethod
    def open(cls, folder: Path) -> "FeatureCache":
        """The finished cache in this folder; a FormatError when it is damaged."""
        try:
            manifest = json.loads((folder / "manifest.json").read_text())
            features = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
            usable = np.load(folder / "usable.npy", allow_pickle=False)
            shape = tuple(manifest["shape"])
            version = manifest["format_version"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{folder} is not a feature cache - {error} - delete it") from error
        if version != FORMAT_VERSION or features.shape != shape or len(usable) != shape[0]:
            raise FormatError(f"{folder} does not fit its manifest - delete it to compute it again")
        return cls(folder, features, usable)

    def row(self, index: int) -> Float[Tensor, "..."] | None:
        """The features of one image in single precision; None when the image was unusable."""
        if not self.usable[index]:
            return None
        return torch.from_numpy(self.features[index].astype(np.float32))

    def __len__(self) -> int:
        return len(self.usable)


def digest_of_module(module: nn.Module) -> str:
    """A digest of a module's class, structure and every weight and buffer, bit for bit.

    What else decides about its output, a module tells in its `extra_repr`.

    >>> a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> digest_of_module(a) == digest_of_module(a), digest_of_module(a) == digest_of_module(b)
    (True, False)
    """
    seen = hashlib.sha256(repr(module).encode())
    for name, tensor in sorted(module.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        seen.update(f"{name}:{values.dtype}:{tuple(values.shape)}".encode())
        seen.update(values.flatten().view(torch.uint8).numpy().tobytes())
    return seen.hexdigest()


@dataclass(frozen=True)
class _Batches:
    dataset: CaptionDataset
    transform: ImageTransform
    view: int | None
    batch_size: int
    workers: int
    problems: Problems

    def from_image(self, start: int) -> Iterator[tuple[np.ndarray, Tensor]]:
        return image_batches(
            self.dataset.images,
            self.transform,
            batch_size=self.batch_size,
            problems=self.problems,
            workers=self.workers,
            start=start,
            # not the run's seed: all runs of a dataset share its views
            drawn=None if self.view is None else lambda index: stream(0, "view", self.view, index),
        )


def _digest(
    dataset: CaptionDataset, transform: ImageTransform, backbone: str, view: int | None
) -> str:
    seen = hashlib.sha256(repr((FORMAT_VERSION, transform, backbone, view)).encode())
    for index in range(len(dataset.images)):
        seen.update(f"{dataset.images.id(index)}\0{dataset.images.stamp(index)}\0".encode())
    return seen.hexdigest()[:16]


def _compute(
    final: Path,
    count: int,
    batches: _Batches,
    encode: Encode,
    progress: Callable[[int, int], None],
) -> None:
    """Fill final.partial, then give it its name: whoever sees the name sees all of it."""
    partial = final.with_name(f"{final.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    atomic.clean(partial)
    done, features = _resumed(partial, count)
    usable = _saved_rows(partial, count, done)
    for number, (indices, pixels) in enumerate(batches.from_image(done), start=1):
        values = _encoded(encode, pixels)
        if features is None:
            features = _new_features(partial, (count, *values.shape[1:]))
        features[indices] = values
        usable[indices] = True
        done = int(indices[-1]) + 1
        if number % SAVE_EVERY == 0:
            _note(partial, features, usable, done)
        progress(done, count)
    if features is None:
        raise FormatError(f"{final.name}: none of the {count} images can be used")
    _note(partial, features, usable, count)
    manifest = {"format_version": FORMAT_VERSION, "shape": list(features.shape)}
    atomic.write_text(partial / "manifest.json", json.dumps(manifest))
    os.replace(partial, final)


def _encoded(encode: Encode, pixels: UInt8[Tensor, "b 3 h w"]) -> Float16[np.ndarray, "b ..."]:
    with torch.no_grad():
        values = encode(pixels)
    if values.ndim not in (3, 4) or len(values) != len(pixels):
        raise ShapeError(
            f"a backbone must give features [{len(pixels)}, sites, d] or maps [{len(pixels)}, c, "
            f"h, w] - got {tuple(values.shape)}"
        )
    narrow: Float16[np.ndarray, "b ..."] = values.to(torch.float16).cpu().numpy()
    if not np.isfinite(narrow).all():
        raise FormatError(
            "the backbone's features exceed half precision (65,504) or are not finite"
        )
    return narrow


def _new_features(folder: Path, shape: tuple[int, ...]) -> np.memmap:
    path = folder / "features.npy"
    features = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)
    if hasattr(os, "posix_fallocate"):
        # A full disk is an error here; later, when the map is written to, it would be a crash.
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return features


def _resumed(folder: Path, count: int) -> tuple[int, np.memmap | None]:
    """(images done, features so far) of a computation that was cut short; (0, None) afresh."""
    try:
        done = int(json.loads((folder / "done.json").read_text())["done"])
        features = np.lib.format.open_memmap(folder / "features.npy", mode="r+")
    except (OSError, ValueError, KeyError, TypeError):
        return 0, None
    return (done, features) if features.shape[0] == count and done <= count else (0, None)


def _saved_rows(folder: Path, count: int, done: int) -> Bool[np.ndarray, " n"]:
    if done == 0:
        return np.zeros(count, np.bool_)
    saved: Bool[np.ndarray, " n"] = np.load(folder / "usable.npy", allow_pickle=False)
    return saved


def _note(folder: Path, features: np.memmap, usable: Bool[np.ndarray, " n"], done: int) -> None:
    """Make durable what has been computed, then say so."""
    features.flush()
    with atomic.replacing(folder / "usable.npy") as draft, draft.open("wb") as file:
        np.save(file, usable)
    atomic.write_text(folder / "done.json", json.dumps({"done": done}))
