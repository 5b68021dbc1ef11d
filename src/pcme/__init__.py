"""Probabilistic embeddings for image-text retrieval.

Images and captions become Gaussians; a score compares two sets of them; metrics judge the ranking.
Names are loaded on first use, so ``import pcme`` alone costs next to nothing.

>>> import pcme
>>> "match_prob" in pcme.scores.names()
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "CaptionDataset",
    "Confidence",
    "ConfigError",
    "DataError",
    "FormatError",
    "Gaussian",
    "Hits",
    "Matches",
    "Model",
    "PcmeError",
    "Points",
    "Ranking",
    "SearchIndex",
    "ShapeError",
    "all_of",
    "any_of",
    "but_not",
    "data",
    "load",
    "methods",
    "metrics",
    "pair_nll",
    "recipes",
    "scores",
    "train",
]

if TYPE_CHECKING:
    import pcme.data as data
    import pcme.methods as methods
    import pcme.recipes as recipes
    import pcme.retrieval.metrics as metrics
    import pcme.scores as scores
    from pcme.data.dataset import CaptionDataset
    from pcme.embedding import Gaussian, Points
    from pcme.errors import ConfigError, DataError, FormatError, PcmeError, ShapeError
    from pcme.index import Hits, SearchIndex
    from pcme.methods.likelihood import pair_nll
    from pcme.model import Model, load
    from pcme.retrieval.matches import Matches
    from pcme.retrieval.ranking import Ranking
    from pcme.scores.combine import all_of, any_of, but_not
    from pcme.training import train
    from pcme.uncertainty import Confidence
else:  # a type checker must not see __getattr__: it would accept any misspelt name
    _HOME = {
        "CaptionDataset": "data.dataset",
        "Confidence": "uncertainty",
        "ConfigError": "errors",
        "DataError": "errors",
        "FormatError": "errors",
        "Gaussian": "embedding",
        "Hits": "index",
        "Matches": "retrieval.matches",
        "Model": "model",
        "PcmeError": "errors",
        "Points": "embedding",
        "Ranking": "retrieval.ranking",
        "SearchIndex": "index",
        "ShapeError": "errors",
        "all_of": "scores.combine",
        "any_of": "scores.combine",
        "but_not": "scores.combine",
        "load": "model",
        "metrics": "retrieval.metrics",
        "pair_nll": "methods.likelihood",
        "train": "training",
    }

    def __getattr__(name: str) -> object:
        """Import a public name on first use (PEP 562) and keep it."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        from importlib import import_module

        module = import_module(f"{__name__}.{_HOME.get(name, name)}")
        value = getattr(module, name, module)
        return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
