"""Policy for the whole suite.

Statistical tests are seeded and allow five standard errors, a false alarm about once in 10⁶ per
check. If one fails on new software, look for the cause first; its seed may be changed once, with
the reason in the commit. Hypothesis is derandomised for the same reason: a red run stays red.
"""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "pcme", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("pcme")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """No test reads or writes the user's cache of features."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PCME_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
