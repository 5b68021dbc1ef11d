"""The networks here are small: threads would only wait for each other."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on a busy machine two of them wait for each other
    yield
    torch.set_num_threads(threads)
