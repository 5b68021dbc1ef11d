"""What a machine has: devices, datasets below $PCME_DATA, caches."""

import os
from pathlib import Path

import torch

from pcme import data
from pcme.errors import PcmeError
from pcme.kernels.devices import available, choose
from pcme.model.frozen import cache_folder


def describe_devices() -> dict[str, str]:
    """{name: what it is} of the devices; the one that "auto" takes says so."""
    preferred = str(choose())
    return {name: _describe(name) + (" (auto)" if name == preferred else "") for name in available()}


def describe_data() -> dict[str, str]:
    """{kind: its folder} of the datasets that are found without --data-root."""
    found = {}
    for name in data.names():
        if not data.registry.get(name).layout:
            continue
        try:
            found[name] = str(getattr(data.find(name), "root", ""))
        except PcmeError:
            continue
    return found


def describe_caches() -> dict[str, str]:
    """{folder: its size}."""
    folder = cache_folder()
    return {str(folder): _size(folder)}


def _describe(name: str) -> str:
    if name.startswith("cuda"):
        properties = torch.cuda.get_device_properties(name)
        return f"{properties.name}, {properties.total_memory / 1e9:.0f} GB"
    if name == "mps":
        return "the GPU of this Mac; scores are computed on the CPU, for want of float64"
    return f"{os.cpu_count()} cores, {torch.get_num_threads()} threads of torch"


def _size(folder: Path) -> str:
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    return f"{sum(path.stat().st_size for path in files) / 1e6:,.0f} MB in {len(files):,} files" if files else "empty"
