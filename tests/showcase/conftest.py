import pytest

from pcme.showcase import gather
from pcme.training import train
from tests.training.trained import SHORT


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A tiny run with a sigma."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    train(SHORT.changed(["seed=3"]), folder)
    return folder


@pytest.fixture(scope="session")
def pointed_run(tmp_path_factory):
    """A tiny run without a sigma, whose score is no probability."""
    folder = tmp_path_factory.mktemp("runs") / "pointed"
    train(SHORT.changed(['method={"kind": "infonce"}']), folder)
    return folder


@pytest.fixture(scope="session")
def report(run):
    """All that is known of the first."""
    return gather(run, split="val")
