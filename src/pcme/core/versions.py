"""The versions that a result depends on: of pcme, of Python and of the libraries that compute."""

from importlib.metadata import PackageNotFoundError, version
from platform import python_version

LIBRARIES = ("torch", "numpy", "numba", "scipy", "pillow")


def versions() -> dict[str, str]:
    """{name: version}, pcme first; "not installed" where a package has no metadata."""
    return {"pcme": _version("pcme"), "python": python_version(), **{name: _version(name) for name in LIBRARIES}}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # run from its source
        return "not installed"
