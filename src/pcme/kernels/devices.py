"""Devices: one chosen by its name, and the path that the numerics take there.

Compiled loops serve the CPU. Everywhere else, and within `torch_only`, the same formulas run as torch operations whose
number does not depend on the data, so that a training step never waits for the device.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from pcme.errors import ConfigError

AUTO = "auto"
VARIABLE = "PCME_DEVICE"
"""The environment variable that says what "auto" is."""
ACCELERATORS = ("cuda", "mps")
"""In the order in which "auto" takes them."""
BLOCK_BYTES = 1 << 26
"""Temporaries of one block, where a formula has no product."""

DeviceLike = str | torch.device

_torch_only: ContextVar[bool] = ContextVar("torch_only", default=False)


def choose(device: DeviceLike = AUTO) -> torch.device:
    """The device of a name such as "cuda:1"; "auto" is $PCME_DEVICE, else an accelerator where there is one.

    >>> choose("cpu")
    device(type='cpu')
    """
    known = available()
    name = os.environ.get(VARIABLE, AUTO) if str(device) == AUTO else str(device)
    name = known[-1] if name == AUTO else name
    kind, _, number = name.partition(":")
    if kind not in {each.partition(":")[0] for each in known} or (number and name not in known):
        raise ConfigError(f"device: must be auto or one of {', '.join(known)}, got {name}. Run `pcme doctor`.")
    return torch.device(name)


@contextmanager
def preferred(device: DeviceLike) -> Iterator[torch.device]:
    """Within the `with` block "auto" is this device, here and in processes that are started."""
    chosen, before = choose(device), os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(chosen)
    try:
        yield chosen
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def available() -> tuple[str, ...]:
    """The names of this machine's devices, the one that "auto" takes last."""
    cuda = [f"cuda:{number}" for number in reversed(range(torch.cuda.device_count()))]
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return ("cpu", *mps, *cuda)


def uses_compiled(device: torch.device) -> bool:
    """Whether compiled loops do the work for tensors there."""
    return device.type == "cpu" and not _torch_only.get()


def generator_device(device: torch.device) -> torch.device:
    """Where random numbers for tensors there are drawn."""
    return device if device.type in ACCELERATORS else torch.device("cpu")


def has_float64(device: torch.device) -> bool:
    """Whether tensors there can be in double precision."""
    return device.type != "mps"


def widest(device: torch.device) -> torch.dtype:
    """The most precise type of numbers there."""
    return torch.float64 if has_float64(device) else torch.float32


@contextmanager
def torch_only() -> Iterator[None]:
    """Within the `with` block the CPU takes the path of other devices, which is slower: to compare the two."""
    token = _torch_only.set(True)
    try:
        yield
    finally:
        _torch_only.reset(token)
