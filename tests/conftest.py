"""Policy for the whole suite.

Statistical tests are seeded and allow five standard errors, a false alarm about once in 10⁶ per
check. If one fails on new software, look for the cause first; its seed may be changed once, with
the reason in the commit. Hypothesis is derandomised for the same reason: a red run stays red.
"""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("pcme", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pcme")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """No test reads or writes the user's cache of features."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PCME_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


SMALL = {"docs", "methods", "model", "nn", "recipes", "reproduce", "stored", "training"}
"""Folders whose tests have networks so small that threads only wait for each other."""


@pytest.fixture(autouse=True, scope="module")
def _small_networks(request):
    if SMALL & {*request.path.parts}:
        request.getfixturevalue("one_thread")


@pytest.fixture(scope="module")
def one_thread():
    from tests import helpers

    with helpers.one_thread():
        yield


@pytest.fixture(scope="session")
def sigma_run(tmp_path_factory):
    """The folder of a finished run of aviary-tiny: to be read, not changed (`models.copied`)."""
    return _trained("TINY", tmp_path_factory.mktemp("sigma") / "run")


@pytest.fixture(scope="session")
def points_run(tmp_path_factory):
    """The folder of a finished run without σ (InfoNCE): to be read, not changed."""
    return _trained("POINTS", tmp_path_factory.mktemp("points") / "run")


def _trained(recipe, folder):
    from pcme.training import train
    from tests import helpers, models

    with helpers.one_thread():
        train(getattr(models, recipe), folder, workers=0)
    return folder
