"""Probabilistic embeddings for image-text retrieval.

Images and captions become Gaussians; a score compares two sets of them; metrics judge the ranking.
Public names are imported on first use, so `import pcme` alone costs next to nothing.

>>> import pcme
>>> "match_prob" in pcme.scores.names()
True
"""

from importlib import import_module

__version__ = "0.1.0"

_MODULES = {
    "CaptionDataset": "data.dataset",
    "Confidence": "uncertainty",
    "Gaussian": "embedding",
    "Hits": "index",
    "Matches": "retrieval.matches",
    "Model": "model",
    "PcmeError": "errors",
    "Points": "embedding",
    "Recipe": "recipes.schema",
    "SearchIndex": "index",
    "calibrate": "uncertainty.calibrate",
    "data": "data",
    "evaluate": "evaluation",
    "load": "model",
    "scores": "scores",
    "train": "training",
}
"""The public names and the modules that define them; type checkers read `__init__.pyi`."""

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    """Import a public name on first use (PEP 562) and keep it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    module = import_module(f"{__name__}.{_MODULES[name]}")
    return globals().setdefault(name, getattr(module, name, module))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
