"""One small reproduction that several test files look at."""

import pytest
import torch

from pcme.reproduce import reproduce
from pcme.reproduce.jobs import perform
from tests.reproduce.tiny import SETUP


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    """The networks here are so small that threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def dof(tmp_path_factory):
    """(folder, result) of the experiment dof: three runs, made in this process."""
    out = tmp_path_factory.mktemp("reproduce")
    (result,) = reproduce(["dof"], data=SETUP, quick=True, out=out, jobs=1, launch=perform)
    return out, result
