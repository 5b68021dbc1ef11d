"""Model: two towers, a vocabulary and an objective; its folder on disk and its origin."""

from pcme.model.model import Model, load

__all__ = ["Model", "load"]
