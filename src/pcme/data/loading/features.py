"""FeatureCache: a frozen backbone's features of a dataset's images, computed once.

One folder per (images, transform, backbone): `features.npy` [n,s,d] in half precision, memory-mapped, `usable.npy`
[n], and `manifest.json`, written last. Its name ends in a digest of everything that the features depend on: the ids and
stamps of the images (size and time of change of files), the transform and the number of its draw, and the backbone's
own digest. So stale features are never read. An interrupted computation resumes.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from jaxtyping import Bool, Float, Float16, Int64, Shaped, UInt8
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
    """A part of a backbone whose output is cached.

    `backbone` is the digest of everything that the output depends on, the stages before it included, for example
    `digest_of_module(module)`; `encode` takes the output of the stage before, the first of them 8-bit pixels.
    """

    backbone: str
    encode: Callable[[Shaped[Tensor, "b ..."]], Float[Tensor, "b ..."]]


@dataclass(frozen=True, eq=False)
class FeatureCache:
    """Features [n,s,d], or maps [n,c,h,w], of a dataset's images, read from disk on access."""

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

        One draw of a random transform is cached per image, numbered by `view`. `progress` is called after every batch.
        """
        if not transform.deterministic and view is None:
            raise ConfigError(
                "transform: must be deterministic for features to be cached, got a random one. Use "
                "ImageTransform.evaluation, number a view, or train on images."
            )
        view = None if transform.deterministic else view
        finals = [folder / _name(dataset, transform, stage.backbone, view) for stage in stages]
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as locks:  # two runs that need the same features compute them once
            for final in sorted(finals):  # in one order, or each could wait for the other
                locks.enter_context(FileLock(f"{final}.lock"))
            missing = [not (final / "manifest.json").is_file() for final in finals]
            if any(missing):
                count = len(dataset.images)
                drafts = [
                    Draft(final, count) if absent else None for final, absent in zip(finals, missing, strict=True)
                ]
                batches = image_batches(
                    dataset.images,
                    transform,
                    batch_size=batch_size,
                    problems=Problems() if problems is None else problems,
                    workers=workers,
                    start=min(draft.done for draft in drafts if draft),
                    # not the run's seed: all runs of a dataset share its views
                    stream=None if view is None else lambda index: numpy_stream(0, "view", view, index),
                )
                _compute(drafts, batches, stages, progress)
        return [cls.open(final) for final in finals]

    @classmethod
    def open(cls, folder: Path) -> "FeatureCache":
        """The finished cache in this folder; a FormatError when it is damaged."""
        try:
            manifest = json.loads((folder / "manifest.json").read_text())
            shape, version = tuple(manifest["shape"]), manifest["format_version"]
            features = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
            usable = np.load(folder / "usable.npy", allow_pickle=False)
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
    """A digest of a module's class, structure, `extra_repr`, and every weight and buffer, bit for bit.

    >>> a, b = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> digest_of_module(a) == digest_of_module(a), digest_of_module(a) == digest_of_module(b)
    (True, False)
    """
    digest = hashlib.sha256(repr(module).encode())
    for name, tensor in sorted(module.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name}:{values.dtype}:{tuple(values.shape)}".encode())
        digest.update(values.flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _name(dataset: CaptionDataset, transform: ImageTransform, backbone: str, view: int | None) -> str:
    """The name of the folder of these features."""
    digest = hashlib.sha256(repr((FORMAT_VERSION, transform, backbone, view)).encode())
    for index in range(len(dataset.images)):
        digest.update(f"{dataset.images.id(index)}\0{dataset.images.stamp(index)}\0".encode())
    return re.sub("[:/]", "-", f"{dataset.name}-{dataset.split}-{digest.hexdigest()[:16]}")


def _compute(
    drafts: Sequence[Draft | None],
    batches: Iterable[tuple[Int64[np.ndarray, " b"], UInt8[Tensor, "b 3 h w"]]],
    stages: Sequence[Stage],
    progress: Progress,
) -> None:
    """Fill the drafts with the outputs of their stages; stages above the last draft do not run."""
    unfinished = [draft for draft in drafts if draft]
    steps = list(zip(stages, drafts, strict=True))
    while steps[-1][1] is None:
        steps.pop()
    for number, (indices, pixels) in enumerate(batches, start=1):
        values: Tensor = pixels
        for stage, draft in steps:
            with torch.no_grad():
                values = stage.encode(values)
            if draft:
                draft.put(indices, half_precision(values, len(pixels)))
        if number % SAVE_EVERY == 0:
            for draft in unfinished:
                draft.note()
        progress("features of the images", int(indices[-1]) + 1, unfinished[0].count)
    for draft in unfinished:
        draft.finish()


def half_precision(values: Float[Tensor, "b ..."], count: int) -> Float16[np.ndarray, "b ..."]:
    """The features of so many items, as they are stored."""
    if values.ndim not in (3, 4) or len(values) != count:
        raise ShapeError(
            f"backbone: must give features [{count}, sites, d] or maps [{count}, c, h, w], got {tuple(values.shape)}."
        )
    narrow: Float16[np.ndarray, "b ..."] = values.to(torch.float16).cpu().numpy()
    if not np.isfinite(narrow).all():
        raise FormatError("backbone: its features exceed half precision (65,504) or are not finite.")
    return narrow
