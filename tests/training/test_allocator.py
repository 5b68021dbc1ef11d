import ctypes
import subprocess
import sys

import pytest

CODE = """
import resource, torch
from pcme.training.allocator import keep_freed
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.ones(20_000_000).add_(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
with keep_freed() as kept:
    assert kept
    faults()
    within = faults()
print(within, faults())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="needs glibc's mallopt")
def test_large_tensors_find_their_pages_again_until_the_end():
    within, after = map(int, subprocess.check_output([sys.executable, "-c", CODE], text=True).split())
    assert within < after / 10
