import pytest

from tests.helpers import picture


@pytest.fixture
def folder(tmp_path):
    """A folder of three pictures."""
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        picture(tmp_path / name)
    return tmp_path
