"""A ResNet's tensors from Keras' names and axes to those of the backbone `resnet-keras`.

Keras calls the second 1x1 convolution of the first block of the second stage res3a_branch2c; torchvision, whose names
the backbone has, layer2.0.conv3. Kernels go from [h, w, in, out] to [out, in, h, w]. The first one takes blue, green
and red; afterwards it takes red, green and blue, as all images here are.
"""

from collections.abc import Iterator, Mapping, Sequence
from string import ascii_lowercase

import numpy as np
from jaxtyping import Float32

from pcme.errors import FormatError

RESNET50 = (3, 4, 6, 3)
"""Blocks of each stage."""

_CONVOLUTION = {"kernel": "weight", "bias": "bias"}
_NORM = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}
_BRANCHES = {"2a": ("conv1", "bn1"), "2b": ("conv2", "bn2"), "2c": ("conv3", "bn3")}
_SHORTCUT = {"1": ("downsample.0", "downsample.1")}
_FIRST = "conv1/kernel"


def torch_weights(
    tensors: Mapping[str, Float32[np.ndarray, "..."]], where: str, repeats: Sequence[int] = RESNET50
) -> dict[str, Float32[np.ndarray, "..."]]:
    """The state dict of a network with so many blocks in each stage; `fc` is its classifier."""
    names = dict(_names(repeats))
    faults = {"lacks": names.keys() - tensors.keys(), "has the unknown": tensors.keys() - names.keys()}
    for fault, wrong in faults.items():
        if wrong:
            listing = ", ".join(sorted(wrong)[:3]) + (", ..." if len(wrong) > 3 else "")
            raise FormatError(
                f"{where}: not this ResNet of Keras, it {fault} {listing} ({len(wrong)} in all). Fetch it again."
            )
    return {names[name]: _in_torch_order(name, values, where) for name, values in tensors.items()}


def _names(repeats: Sequence[int]) -> Iterator[tuple[str, str]]:
    """(Keras' name, ours) of every tensor."""
    for theirs, ours in _layers(repeats):
        kinds = _NORM if theirs.startswith("bn") else _CONVOLUTION
        yield from ((f"{theirs}/{kind}", f"{ours}.{kinds[kind]}") for kind in kinds)


def _layers(repeats: Sequence[int]) -> Iterator[tuple[str, str]]:
    """(Keras' name, ours) of every layer that has weights."""
    yield from (("conv1", "conv1"), ("bn_conv1", "bn1"), ("fc1000", "fc"))
    for stage, count in enumerate(repeats, start=1):
        for block in range(count):
            theirs, ours = f"{stage + 1}{ascii_lowercase[block]}_branch", f"layer{stage}.{block}"
            for branch, (convolution, norm) in (_BRANCHES if block else _BRANCHES | _SHORTCUT).items():
                yield f"res{theirs}{branch}", f"{ours}.{convolution}"
                yield f"bn{theirs}{branch}", f"{ours}.{norm}"


def _in_torch_order(name: str, values: Float32[np.ndarray, "..."], where: str) -> Float32[np.ndarray, "..."]:
    rank = 1 if not name.endswith("/kernel") else 2 if name.startswith("fc") else 4
    if values.ndim != rank:
        raise FormatError(f"{where}: {name} must have {rank} axes, got {values.ndim}. Fetch the model again.")
    turned = values.transpose(3, 2, 0, 1) if rank == 4 else values.T
    return np.ascontiguousarray(turned[:, ::-1] if name == _FIRST else turned)
