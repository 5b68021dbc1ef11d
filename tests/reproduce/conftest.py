"""One small reproduction that several test files look at."""

import pytest

from pcme.reproduce import reproduce
from pcme.reproduce.jobs import perform
from tests.helpers import one_thread
from tests.reproduce.tiny import SETUP


@pytest.fixture(scope="package")
def dof(tmp_path_factory):
    """(folder, result) of the experiment dof: three runs, made in this process."""
    out = tmp_path_factory.mktemp("reproduce")
    with one_thread():
        (result,) = reproduce(["dof"], data=SETUP, quick=True, out=out, jobs=1, launch=perform)
    return out, result
