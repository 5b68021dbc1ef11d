"""Freed memory stays with the process, so that a step does not wait for cleared pages."""

import ctypes
import subprocess
import sys

import pytest

CODE = """
import resource, torch
from pcme.training.allocator import keep_freed
assert {keep} == False or keep_freed()
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    torch.ones(20_000_000).add_(1)
before = faults()
for _ in range(20):
    torch.ones(20_000_000).add_(1)
print(faults() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc's mallopt")
def test_large_tensors_find_their_pages_again():
    returned, kept = (
        int(subprocess.run(
            [sys.executable, "-c", CODE.format(keep=keep)], check=True, capture_output=True,
            text=True,
        ).stdout)
        for keep in (False, True)
    )  # fmt: skip
    assert kept < returned / 10
