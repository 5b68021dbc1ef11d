"""FeatureCache: a frozen backbone's features of a dataset's images, computed once.

One folder per (images, transform, backbone): `features.npy` [n,s,d] in half precision, memory- mapped, `usable.npy`
[n], and `manifest.json`, written last. Its name ends in a digest of all that the features depend on: the ids and stamps
of the images (size and time of change of files), the transform and the number of its draw, and the backbone's own
digest. A changed file or backbone has another digest, so stale features are never read. An interrupted computation
resumes. The outputs of several stages of a backbone are computed in one pass.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from jaxtyping import Bool, Float, Float16, Shaped
from torch import Tensor, nn

from pcme.core.progress import Progress, silent
from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.images.transforms import ImageTransform
from pcme.data.loading.batches import image_batches
from pcme.data.loading.drafts import FORMAT_VERSION, SAVE_EVERY, Draft
from pcme.data.problems import Problems
from pcme.errors import ConfigError, FormatError, ShapeError


@dataclass(frozen=True)
class Stage:
    """A part of a backbone whose output is kept.

    `backbone` is the digest of all that the output depends on, the stages before among it, for example
    `digest_of_module(module)`; `encode` takes what the stage before gives, the first of them 8-bit pixels.
    """

    backbone: str
    encode: Callable[[Shaped[Tensor, "b ..."]], Float[Tensor, "b ..."]]


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
        stages: Sequence[Stage],
        *,
        view: int | None = None,
        batch_size: int = 32,
        workers: int = 2,
        problems: Problems | None = None,
        progress: Progress = silent,
    ) -> "list[FeatureCache]":
        """Open the output of every stage of a backbone; missing ones are computed in one pass.

        One draw of a random transform is kept per image, numbered by `view`. `progress` is called after every batch.
        """
        if not transform.deterministic and view is None:
            raise ConfigError(
                "transform: must be deterministic for features to be cached, got a random one. Use "
                "ImageTransform.evaluation, number a view, or train on images."
            )
        seen = None if transform.deterministic else view
        finals = [folder / _name(dataset, transform, stage.backbone, seen) for stage in stages]
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as locks:  # two runs that need the same features compute them once
            for final in sorted(finals):  # in one order, or each could wait for the other
                locks.enter_context(FileLock(f"{final}.lock"))
            missing = [not (final / "manifest.json").is_file() for final in finals]
            if any(missing):
                noted = problems if problems is not None else Problems()
                batches = _Batches(dataset, transform, seen, batch_size, workers, noted)
                count = len(dataset.images)
                drafts = [
                    Draft(final, count) if wanted else None for final, wanted in zip(finals, missing, strict=True)
                ]
                _compute(drafts, batches, stages, progress)
        return [cls.open(final) for final in finals]

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
            raise FormatError(f"{folder}: not a feature cache, {error}. Delete it.") from error
        if version != FORMAT_VERSION or features.shape != shape or len(usable) != shape[0]:
            raise FormatError(f"{folder}: does not fit its manifest. Delete it to recompute it.")
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
            drawn=None if self.view is None else lambda index: numpy_stream(0, "view", self.view, index),
        )


def _name(dataset: CaptionDataset, transform: ImageTransform, backbone: str, view: int | None) -> str:
    """The folder of these features."""
    name = f"{dataset.name}-{dataset.split}-{_digest(dataset, transform, backbone, view)}"
    return name.replace(":", "-").replace("/", "-")


def _digest(dataset: CaptionDataset, transform: ImageTransform, backbone: str, view: int | None) -> str:
    seen = hashlib.sha256(repr((FORMAT_VERSION, transform, backbone, view)).encode())
    for index in range(len(dataset.images)):
        seen.update(f"{dataset.images.id(index)}\0{dataset.images.stamp(index)}\0".encode())
    return seen.hexdigest()[:16]


def _compute(drafts: Sequence[Draft | None], batches: _Batches, stages: Sequence[Stage], progress: Progress) -> None:
    """Fill the drafts with what their stages give, from where the one furthest behind stopped."""
    wanted = [draft for draft in drafts if draft is not None]
    last = max(place for place, draft in enumerate(drafts) if draft is not None)
    steps = list(zip(stages, drafts, strict=True))[: last + 1]
    start = min(draft.done for draft in wanted)
    for number, (indices, pixels) in enumerate(batches.from_image(start), start=1):
        values: Tensor = pixels
        for stage, draft in steps:
            with torch.no_grad():
                values = stage.encode(values)
            if draft is not None:
                draft.put(indices, _narrow(values, len(pixels)))
        if number % SAVE_EVERY == 0:
            for draft in wanted:
                draft.note()
        progress("features of the images", int(indices[-1]) + 1, wanted[0].count)
    for draft in wanted:
        draft.finish()


def _narrow(values: Float[Tensor, "b ..."], count: int) -> Float16[np.ndarray, "b ..."]:
    if values.ndim not in (3, 4) or len(values) != count:
        raise ShapeError(
            f"backbone: must give features [{count}, sites, d] or maps [{count}, c, h, w], got {tuple(values.shape)}."
        )
    narrow: Float16[np.ndarray, "b ..."] = values.to(torch.float16).cpu().numpy()
    if not np.isfinite(narrow).all():
        raise FormatError("backbone: its features exceed half precision (65,504) or are not finite.")
    return narrow
