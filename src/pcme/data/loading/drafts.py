"""Drafts: features that are being computed for a cache; an interrupted computation resumes."""

import json
import os
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float16, Int64

from pcme.core import files
from pcme.errors import FormatError

FORMAT_VERSION = 1
SAVE_EVERY = 16
"""Batches between two records of the progress."""


class Draft:
    """Features being computed, in a folder beside the final one; renamed when they are complete."""

    def __init__(self, final: Path, count: int) -> None:
        self.final, self.count = final, count
        self.folder = final.with_name(f"{final.name}.partial")
        self.folder.mkdir(parents=True, exist_ok=True)
        files.clean(self.folder)
        self.done, self.features, self.usable = _resume(self.folder, count)

    def put(self, indices: Int64[np.ndarray, " b"], values: Float16[np.ndarray, "b ..."]) -> None:
        """Store the features of a batch."""
        if self.features is None:
            self.features = new_features(self.folder, (self.count, *values.shape[1:]))
        self.features[indices] = values
        self.usable[indices] = True
        self.done = int(indices[-1]) + 1

    def note(self) -> None:
        """Flush the features computed so far, then record their number."""
        if self.features is None:
            raise FormatError(f"{self.final.name}: none of the {self.count} images can be used.")
        self.features.flush()
        with files.replacing(self.folder / "usable.npy") as draft, draft.open("wb") as file:
            np.save(file, self.usable)
        files.write_text(self.folder / "done.json", json.dumps({"done": self.done}))

    def finish(self) -> None:
        """Rename the folder: a reader sees all of it or nothing."""
        self.note()
        assert self.features is not None, "noted"
        manifest = {"format_version": FORMAT_VERSION, "shape": list(self.features.shape)}
        files.write_text(self.folder / "manifest.json", json.dumps(manifest))
        os.replace(self.folder, self.final)


def new_features(folder: Path, shape: tuple[int, ...]) -> np.memmap:
    """An empty file of features, with room on the disk for all of them."""
    path = folder / "features.npy"
    features = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=shape)
    if hasattr(os, "posix_fallocate"):
        # A full disk is an error here; later, when the map is written to, it would be a crash.
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return features


def _resume(folder: Path, count: int) -> tuple[int, np.memmap | None, Bool[np.ndarray, " n"]]:
    """(images done, features, usable) of an interrupted computation, or of a new one."""
    try:
        done = int(json.loads((folder / "done.json").read_text())["done"])
        features = np.lib.format.open_memmap(folder / "features.npy", mode="r+")
        usable = np.load(folder / "usable.npy", allow_pickle=False)
        if done <= count == len(features) == len(usable):
            return done, features, usable
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return 0, None, np.zeros(count, np.bool_)
