"""Encoder: the model of an index, loaded when it is first needed, refused when it is another."""

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from pcme.data.text.tokens import Vocab
from pcme.embedding import Embedding
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.settings import ModelId, Settings, Spread
from pcme.model import Model, load
from pcme.model.digest import digest
from pcme.uncertainty import Confidence

ImageLike = str | Path | Image.Image


class Encoder:
    """A model in memory, or in a folder; its confidence, given or found beside it."""

    def __init__(
        self, model: Model | str | Path | None, expected: ModelId | None = None, confidence: Confidence | None = None
    ) -> None:
        home = model.home if isinstance(model, Model) else model
        self.folder = None if home is None else Path(home)
        self._expected = expected
        self._model: Model | None = None
        self._confidence = confidence
        self._confidence_loaded = confidence is not None
        if isinstance(model, Model):
            self._model = self._checked(model)

    @classmethod
    def of_index(
        cls, settings: Settings, model: Model | str | Path | None, confidence: Confidence | None = None
    ) -> "Encoder":
        """The encoder of an index: the model given, or the one whose folder it remembers."""
        remembered = settings.model.folder if settings.model else None
        return cls(remembered if model is None else model, settings.model, confidence)

    @property
    def model(self) -> Model:
        """The model; an error when there is none, or when the index was made with another."""
        if self._model is None:
            self._model = self._checked(load(self._existing_folder()))
        return self._model

    @property
    def confidence(self) -> Confidence | None:
        """The model's confidence, where it was calibrated."""
        if not self._confidence_loaded and self.folder is not None and self.folder.is_dir():
            self._confidence = Confidence.load(self.folder)
            if self._confidence is not None and self._model is None:
                self._model = self._checked(load(self.folder))  # not another model's confidence
        self._confidence_loaded = True
        return self._confidence

    def settings(self) -> Settings:
        """The settings of an index of this model's embeddings."""
        model = self.model
        folder = None if self.folder is None else str(self.folder.resolve())
        recipe, method = model.recipe.name, model.recipe.method.kind
        return Settings(
            model.recipe.dim,
            self._spread(),
            model.score().for_single_points(),
            ModelId(folder, digest(model), recipe, method),
        )

    def text(self, query: str) -> tuple[Embedding, str | None]:
        """The embedding of a text, and a reason to doubt it, if there is one."""
        model = self.model
        words = model.tokeniser.split(query)
        if not words:
            raise DataError(f"query: has no words, got {query!r:.60}. Describe what to look for.")
        note = None
        if isinstance(model.tokeniser, Vocab) and not model.tokeniser.known(words):
            note = f"the model knows none of these words: {' '.join(words)[:80]}"
        return model.encode_captions([query]), note

    def images(self, images: Sequence[ImageLike]) -> Embedding:
        """The embeddings of images."""
        return self.model.encode_images(images)

    def captions(self, texts: Sequence[str]) -> Embedding:
        """The embeddings of captions."""
        return self.model.encode_captions(texts)

    def _spread(self) -> Spread:
        heads = self.model.method.heads(self.model.recipe.dim)
        if heads.points > 1:
            raise ConfigError(
                f"model: an index holds one point per item, got {heads.points}. Use a model with "
                "Gaussians, or with one point per item."
            )
        return heads.covariance

    def _existing_folder(self) -> Path:
        if self.folder is None and self._expected is None:
            raise ConfigError(
                "model: the index has none, it holds vectors. Search it by a vector (a .npy file, "
                "a Gaussian, Points), or create an index with a model."
            )
        if self.folder is None:
            raise ConfigError(
                f"model: its folder is unknown ({self._expected}). Open the index with model=... (--model)."
            )
        if not self.folder.is_dir():
            raise ConfigError(f"{self.folder}: no model there. Say where it is now with model=... (--model).")
        return self.folder

    def _checked(self, model: Model) -> Model:
        if self._expected is not None and (other := digest(model)) != self._expected.digest:
            raise FormatError(
                f"model: the index was made with {self._expected}, got digest {other[:12]} (recipe "
                f"{model.recipe.name}). Use the index's model, or create a new index."
            )
        return model.eval()
