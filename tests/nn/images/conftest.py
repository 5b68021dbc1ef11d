"""The networks here are small: threads would only wait for each other."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _threads(one_thread):
    """One for all of them."""
