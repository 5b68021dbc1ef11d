import pytest

from pcme.showcase import gather


@pytest.fixture(scope="session")
def report(sigma_run):
    """All that is known of a run with σ."""
    return gather(sigma_run, split="val")


@pytest.fixture(scope="session")
def points_report(points_run):
    """All that is known of a run without σ, whose score is no probability."""
    return gather(points_run, split="val")
