"""Encoder: the model of an index, loaded when it is first needed, refused when it is another."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from PIL import Image

from pcme.data.text.tokens import Vocab
from pcme.embedding import Embedding
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.settings import ModelId, Settings
from pcme.kernels.devices import AUTO, DeviceLike
from pcme.model import Model, load
from pcme.model.digest import digest
from pcme.uncertainty import Confidence

ImageLike = str | Path | Image.Image


class Encoder:
    """A model in memory, or in a folder; its confidence, given or found beside it."""

    def __init__(
        self,
        model: Model | str | Path | None,
        expected: ModelId | None = None,
        confidence: Confidence | None = None,
        device: DeviceLike = AUTO,
    ) -> None:
        home = model.home if isinstance(model, Model) else model
        self.folder = None if home is None else Path(home)
        self._expected, self._confidence, self._device = expected, confidence, device
        if isinstance(model, Model):
            self.model = self._checked(model)

    @cached_property
    def model(self) -> Model:
        """The model; an error when there is none, or when the index was made with another."""
        if self.folder is None and self._expected is None:
            raise ConfigError("model: the index has none. Search it by a vector (a .npy file, a Gaussian, Points).")
        if self.folder is None:
            raise ConfigError(f"model: unknown folder of {self._expected}. Open the index with model=... (--model).")
        if not self.folder.is_dir():
            raise ConfigError(f"{self.folder}: no model there. Say where it is now with model=... (--model).")
        return self._checked(load(self.folder, device=self._device))

    @cached_property
    def confidence(self) -> Confidence | None:
        """The model's confidence, where it was calibrated."""
        if self._confidence is not None or self.folder is None or not self.folder.is_dir():
            return self._confidence
        stored = Confidence.load(self.folder)
        if stored is not None:
            _ = self.model  # an error for the confidence of another model
        return stored

    def settings(self) -> Settings:
        """The settings of an index of this model's embeddings."""
        model, recipe = self.model, self.model.recipe
        heads = model.method.heads(recipe.dim)
        if heads.points > 1:
            raise ConfigError(f"model: must have one point per item, got {heads.points}. Use another model.")
        folder = None if self.folder is None else str(self.folder.resolve())
        identity = ModelId(folder, digest(model), recipe.name, recipe.method.kind)
        return Settings(recipe.dim, heads.covariance, model.score().for_single_points(), identity)

    def texts(self, queries: Sequence[str]) -> tuple[Embedding, list[str | None]]:
        """The embeddings of texts, and for each a reason to doubt it, if there is one."""
        notes = [self._doubt(query) for query in queries]
        return self.model.encode_captions(list(queries)), notes

    def _doubt(self, query: str) -> str | None:
        tokeniser = self.model.tokeniser
        words = tokeniser.split(query)
        if not words:
            raise DataError(f"query: has no words, got {query!r:.60}. Describe what to look for.")
        unknown = isinstance(tokeniser, Vocab) and not tokeniser.known(words)
        return f"the model knows none of these words: {' '.join(words)[:80]}" if unknown else None

    def _checked(self, model: Model) -> Model:
        if self._expected is not None and (other := digest(model)) != self._expected.digest:
            raise FormatError(
                f"model: the index was made with {self._expected}, got {model.recipe.name} with digest {other[:12]}. "
                "Use the index's model, or create a new index."
            )
        return model.eval()
