"""Random streams by name: a draw depends on its purpose, never on who draws or when."""

import hashlib

import numpy as np
import torch


def numpy_stream(seed: int, *names: object) -> np.random.Generator:
    """A numpy generator for a named purpose, independent of all other names.

    Each sample of each epoch has its own stream, so augmentation does not depend on the number of workers. The names
    are hashed: changing one changes the draw.

    >>> a, b = numpy_stream(0, "flip", 3), numpy_stream(0, "flip", 3)
    >>> bool(a.random() == b.random())
    True
    """
    return np.random.Generator(np.random.Philox(key=np.frombuffer(_digest(seed, names)[:16], np.uint64)))


def torch_stream(seed: int, *names: object, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator for a named purpose, independent of all other names; each kind of device draws its own numbers.

    >>> torch_stream(0, "init").initial_seed() == torch_stream(0, "init").initial_seed()
    True
    """
    return torch.Generator(device).manual_seed(int.from_bytes(_digest(seed, names)[:8], "little"))


def _digest(seed: int, names: tuple[object, ...]) -> bytes:
    return hashlib.sha256(repr((seed, *names)).encode()).digest()
