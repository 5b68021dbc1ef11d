"""CaptionStates: what a frozen text tower makes of captions, computed once.

One folder per (ids of all captions, tower): `features.npy` [n,d] in half precision, the last hidden states of all
tokens one caption after another, memory-mapped; `starts.npy` [m+1], where each caption begins; and `manifest.json`,
written last. The folder's name ends in a digest of the ids, which say all about captions, tokeniser and augmentation,
and of the tower. So stale states are never read.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from filelock import FileLock
from jaxtyping import Float, Float16, Int64
from torch import Tensor

from pcme.core import files
from pcme.core.progress import Progress, silent
from pcme.data.loading.drafts import new_features
from pcme.data.loading.features import half_precision
from pcme.data.text.tokens import Tokens
from pcme.errors import FormatError

FORMAT_VERSION = 1
BATCH = 256
"""Captions that a tower reads at a time, of about one length."""


@dataclass(frozen=True)
class Encoder:
    """A text tower: a digest of all that its states depend on, their width, and the states of a batch of captions."""

    digest: str
    width: int
    encode: Callable[[Tokens], Float[Tensor, "b l d"]]


@dataclass(frozen=True, eq=False)
class CaptionStates:
    """States [l,d] of every caption, read from disk on access."""

    features: Float16[np.ndarray, "n d"]
    starts: Int64[np.ndarray, " m"]

    @classmethod
    def open_or_compute(
        cls, folder: Path, tokens: Tokens, encoder: Encoder, *, progress: Progress = silent
    ) -> "CaptionStates":
        """Open the states of captions by one tower, or compute them; `progress` is called after every batch."""
        final = folder / _name(tokens, encoder)
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{final}.lock"):  # two runs that need the same states compute them once
            if not (final / "manifest.json").is_file():
                _compute(final, tokens, encoder, progress)
        return cls.open(final)

    @classmethod
    def open(cls, folder: Path) -> "CaptionStates":
        """The finished states in this folder; a FormatError when they are damaged."""
        try:
            version = json.loads((folder / "manifest.json").read_text())["format_version"]
            features = np.load(folder / "features.npy", mmap_mode="r", allow_pickle=False)
            starts = np.load(folder / "starts.npy", allow_pickle=False)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{folder}: no states of captions, got {error}. Delete it.") from error
        if version != FORMAT_VERSION or features.ndim != 2 or starts[-1] != len(features):
            raise FormatError(f"{folder}: does not fit its manifest. Delete it to compute it again.")
        return cls(features, starts)

    def row(self, index: int) -> Float[Tensor, "l d"]:
        """The states of a caption's tokens in single precision."""
        start, end = self.starts[index : index + 2].tolist()
        return torch.from_numpy(self.features[start:end].astype(np.float32))

    def __len__(self) -> int:
        return len(self.starts) - 1


def _name(tokens: Tokens, encoder: Encoder) -> str:
    """The name of the folder of these states."""
    digest = hashlib.sha256(repr((FORMAT_VERSION, encoder.digest, tuple(tokens.ids.shape))).encode())
    for part in (tokens.ids, tokens.lengths):
        digest.update(part.contiguous().numpy().tobytes())
    return f"captions-{len(tokens.ids)}-{digest.hexdigest()[:16]}"


def _compute(final: Path, tokens: Tokens, encoder: Encoder, progress: Progress) -> None:
    """Write the folder of the states; a reader sees all of it or nothing."""
    draft = final.with_name(f"{final.name}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir()
    starts = np.concatenate([[0], np.cumsum(tokens.lengths.numpy())])
    features = new_features(draft, (int(starts[-1]), encoder.width))
    order = torch.argsort(tokens.lengths, stable=True)  # of about one length, there is little padding
    done = 0
    for rows in order.split(BATCH):
        lengths = tokens.lengths[rows]
        with torch.no_grad():
            values = encoder.encode(Tokens(tokens.ids[rows, : int(lengths.max())], lengths))
        for row, length, states in zip(rows.tolist(), lengths.tolist(), half_precision(values, len(rows)), strict=True):
            features[starts[row] : starts[row + 1]] = states[:length]
        done += len(rows)
        progress("states of the captions", done, len(order))
    features.flush()
    np.save(draft / "starts.npy", starts)
    files.write_text(draft / "manifest.json", json.dumps({"format_version": FORMAT_VERSION}))
    os.replace(draft, final)
