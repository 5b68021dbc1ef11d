"""The average of a model's weights over the steps."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from pcme.errors import ConfigError, ShapeError

Named = Mapping[str, Shaped[Tensor, "..."]]


class ExponentialAverage:
    """The mean of a module's parameters over the updates, each weighing `decay` times the next.

    Σ decay^(n−i) wᵢ / Σ decay^(n−i) over the updates i = 1 … n; the weights before the first update have no part in it.
    Buffers are those of the last update.

    >>> layer = nn.Linear(1, 1, bias=False)
    >>> average = ExponentialAverage(layer, decay=0.5)
    >>> for value in (0.0, 3.0):
    ...     _ = nn.init.constant_(layer.weight, value)
    ...     average.update(layer)
    >>> with average.apply_to(layer):
    ...     layer.weight.item()
    2.0
    >>> layer.weight.item()
    3.0
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ConfigError(f"the decay of an average must be from 0 to below 1, got {decay}.")
        self.decay = decay
        self._updates = 0
        self._means = {name: _wide(p).clone() for name, p in _parameters(module).items()}
        self._buffers = {name: b.clone() for name, b in module.named_buffers()}

    @torch.no_grad()
    def update(self, module: nn.Module) -> None:
        """Add the module's present weights to the average."""
        present = _in_order(_parameters(module), like=self._means)
        self._updates += 1
        weight = (1 - self.decay) / (1 - self.decay**self._updates)
        if present:
            torch._foreach_lerp_(list(self._means.values()), list(map(_wide, present)), weight)
        self._buffers = {name: b.clone() for name, b in module.named_buffers()}

    @contextmanager
    def apply_to(self, module: nn.Module) -> Iterator[None]:
        """Give the module the average within a `with` block, then its own weights, bit for bit."""
        present = _parameters(module) | dict(module.named_buffers())
        average = _in_order(self._means | self._buffers, like=present)
        before = [tensor.clone() for tensor in present.values()]
        try:
            _copy(present.values(), average)
            yield
        finally:
            _copy(present.values(), before)

    def state(self) -> dict[str, Shaped[Tensor, "..."]]:
        """The average as tensors by name, not copied."""
        means = {f"mean.{name}": mean for name, mean in self._means.items()}
        buffers = {f"buffer.{name}": buffer for name, buffer in self._buffers.items()}
        return {"updates": torch.tensor(self._updates), **means, **buffers}

    def load(self, state: Named) -> None:
        """Resume, bit for bit, from the `state` of a module built alike."""
        current = self.state()
        _copy(current.values(), _in_order(state, like=current))
        self._updates = int(current["updates"])


def _parameters(module: nn.Module) -> dict[str, Float[Tensor, "..."]]:
    return {name: p.detach() for name, p in module.named_parameters()}


def _wide(p: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """In single precision at least: in half, most updates of an average are rounded to nothing."""
    return p.to(torch.promote_types(p.dtype, torch.float32))


def _in_order(tensors: Named, *, like: Named) -> list[Shaped[Tensor, "..."]]:
    """The tensors in the order of others, which must have the same names and shapes."""
    shapes, needed = ({(k, tuple(t.shape)) for k, t in side.items()} for side in (tensors, like))
    if differing := sorted({name for name, _ in shapes ^ needed}):
        raise ShapeError(
            "an average fits only modules built like the one it was made for, got one that differs in "
            f"{len(differing)} tensors, first {differing[0]}. Build it from the same settings."
        )
    return [tensors[name] for name in like]


@torch.no_grad()
def _copy(to: Iterable[Shaped[Tensor, "..."]], values: Iterable[Shaped[Tensor, "..."]]) -> None:
    for target, value in zip(to, values, strict=True):
        target.copy_(value)
