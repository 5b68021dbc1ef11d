"""Precision: the encoders' products in 16 bits, losses and weights in 32.

Weights, optimiser, embeddings and losses stay in single precision, and so do the heads but for the attention's weights.
Within `narrow` torch's autocast runs the other matrix products, those of the backbones, and convolutions in 16 bits.
bfloat16 has the range of float32 and needs nothing else; gradients of float16 are scaled up before they can vanish, and
a step whose scaled gradients overflow is left out.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer

from pcme.errors import ConfigError

SCALES = ("cuda", "cpu")
"""Devices on which torch scales gradients."""
FIRST_SCALE = 256.0
"""torch's own, 65,536, leaves out the first eight steps: the loss is a sum over a batch's pairs. It grows by itself."""


class Precision:
    """How a run computes: "float32", "bfloat16" or "float16", on a device.

    `scaler` scales the gradients of float16; of the others it does nothing and has no state.

    >>> with Precision("bfloat16", torch.device("cpu")).narrow():
    ...     (torch.ones(2, 2) @ torch.ones(2, 2)).dtype
    torch.bfloat16
    """

    def __init__(self, name: str, device: torch.device) -> None:
        if name == "float16" and device.type not in SCALES:
            raise ConfigError(
                f"precision: float16 needs one of {', '.join(SCALES)}, got {device}. Use bfloat16, which runs anywhere."
            )
        self.name, self.device = name, device
        self.scaler = GradScaler(device.type, init_scale=FIRST_SCALE, enabled=name == "float16")

    def narrow(self) -> AbstractContextManager[object]:
        """A `with` block for the encoders."""
        if self.name == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.name))

    def backward(self, loss: Float[Tensor, ""], optimiser: Optimizer) -> None:
        """The gradients of a loss, in their true size."""
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(optimiser)
