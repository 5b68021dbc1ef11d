"""A mode that stands in for an accelerator: it fails where one would stop, or where one would be waited for."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

COPIES = {"_to_copy", "copy_", "_pin_memory"}
"""Operations that may see two devices."""
WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "_unique2", "unique_dim"}
"""Operations whose result the CPU must see before it can go on."""


class OneDevice(TorchDispatchMode):
    """Fails on operations between this device and the CPU, other than copies, and on those that wait for this device.

    Numbers in tensors without axes may come from the CPU, as CUDA has it.
    """

    def __init__(self, device="meta"):
        super().__init__()
        self.device, self.operations = device, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [leaf for leaf in tree_leaves((args, kwargs or {})) if isinstance(leaf, torch.Tensor)]
        here = [t for t in tensors if t.device.type == self.device]
        name = func.overloadpacket.__name__
        if here:
            self.operations += 1
            assert name not in WAITS, f"{name} waits for the device"
            assert not (name in ("index", "index_put_") and _by_mask(args[1])), f"{name} by a mask waits for the device"
            strange = [t for t in tensors if t.device.type != self.device and t.ndim]
            assert not strange or name in COPIES, f"{name} sees {sorted({str(t.device) for t in tensors})}"
        return func(*args, **(kwargs or {}))


def _by_mask(indices):
    return any(each is not None and each.dtype == torch.bool for each in indices)
