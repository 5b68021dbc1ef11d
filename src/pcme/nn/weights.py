"""The first weights of convolutional networks, drawn from a generator alone."""

from collections.abc import Callable
from typing import Literal, TypeVar

import torch
from torch import nn

N = TypeVar("N", bound=nn.Module)


def unset(make: Callable[[], N]) -> N:
    """A network whose weights have no values yet: on a real device a layer would draw them from the global stream."""
    with torch.device("meta"):
        network = make()
    return network.to_empty(device="cpu")


def draw_convolutions(
    network: nn.Module, generator: torch.Generator, *, mode: Literal["fan_in", "fan_out"] = "fan_in"
) -> None:
    """Kaiming-normal convolutions (He et al. 2015), and batch norms at their start."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu", generator=generator)
        elif isinstance(module, nn.BatchNorm2d):
            module.reset_parameters()
