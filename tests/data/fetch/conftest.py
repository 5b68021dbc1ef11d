import pytest

from tests.data.fetch.serving import serving, unused


@pytest.fixture
def server(monkeypatch):
    """A web server on loopback, which no proxy of the machine stands before."""
    monkeypatch.setenv("no_proxy", "*")
    with serving() as running:
        yield running


@pytest.fixture
def nowhere(monkeypatch):
    """An address where nobody listens."""
    monkeypatch.setenv("no_proxy", "*")
    return unused()
