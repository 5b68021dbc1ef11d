"""Encoder: the model of an index, loaded when it is first needed, refused when it is another."""

from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from pcme.data.text.tokens import Vocab
from pcme.embedding import Embedding
from pcme.errors import ConfigError, DataError, FormatError
from pcme.index.settings import ModelId, ScoreId, Settings, Spread
from pcme.model import Model, load
from pcme.model.digest import digest
from pcme.scores import create
from pcme.scores.base import Score
from pcme.scores.nearest import NearestPoints
from pcme.uncertainty import Confidence

__all__ = ["Encoder", "Picture"]

Picture = str | Path | Image.Image


class Encoder:
    """A model in memory, or a folder that has one; its confidence, given or found beside it."""

    def __init__(
        self,
        model: Model | str | Path | None,
        expected: ModelId | None = None,
        confidence: Confidence | None = None,
    ) -> None:
        self.folder = Path(model) if isinstance(model, str | Path) else None
        self._expected = expected
        self._model: Model | None = None
        self._confidence = confidence
        self._looked = confidence is not None
        if isinstance(model, Model):
            self._model = self._checked(model)

    @classmethod
    def of_index(
        cls,
        settings: Settings,
        model: Model | str | Path | None,
        confidence: Confidence | None = None,
    ) -> "Encoder":
        """The encoder of an index: the model given, or the one whose folder it remembers."""
        remembered = settings.model.folder if settings.model else None
        return cls(remembered if model is None else model, settings.model, confidence)

    @property
    def model(self) -> Model:
        """The model; an error when there is none, or when it is not the index's own."""
        if self._model is None:
            self._model = self._checked(load(self._folder()))
        return self._model

    @property
    def confidence(self) -> Confidence | None:
        """The model's confidence, where it was calibrated."""
        if not self._looked and self.folder is not None and self.folder.is_dir():
            self._confidence = Confidence.load(self.folder)
            if self._confidence is not None and self._model is None:
                self._model = self._checked(load(self.folder))  # its confidence, not another's
        self._looked = True
        return self._confidence

    def settings(self) -> Settings:
        """What an index of this model's embeddings is made for."""
        model = self.model
        folder = None if self.folder is None else str(self.folder.resolve())
        recipe, method = model.recipe.name, model.recipe.method.kind
        return Settings(
            model.recipe.dim,
            self._spread(),
            ScoreId.of(self._score()),
            ModelId(folder, digest(model), recipe, method),
        )

    def text(self, query: str) -> tuple[Embedding, str | None]:
        """A text's embedding, and what is doubtful about it."""
        model = self.model
        words = model.tokeniser.split(query)
        if not words:
            raise DataError(f"the query has no words - got {query!r:.60} - say what to look for")
        note = None
        if isinstance(model.tokeniser, Vocab) and not model.tokeniser.known(words):
            note = f"the model knows none of these words: {' '.join(words)[:80]}"
        return model.encode_captions([query]), note

    def pictures(self, pictures: Sequence[Picture]) -> Embedding:
        """The embeddings of pictures."""
        return self.model.encode_images(pictures)

    def captions(self, texts: Sequence[str]) -> Embedding:
        """The embeddings of captions."""
        return self.model.encode_captions(texts)

    def _score(self) -> Score:
        """The model's score; of a single point the nearest is the only one."""
        score = self.model.score()
        return create("mean") if isinstance(score, NearestPoints) else score

    def _spread(self) -> Spread:
        heads = self.model.method.heads(self.model.recipe.dim)
        if heads.points > 1:
            raise ConfigError(
                f"this model makes {heads.points} points of an item, an index holds one - use a "
                "model with Gaussians, or with one point an item"
            )
        return heads.covariance

    def _folder(self) -> Path:
        if self.folder is None and self._expected is None:
            raise ConfigError(
                "this is an index of vectors without a model - search it by a vector (a .npy file, "
                "a Gaussian, Points), or make one with a model"
            )
        if self.folder is None:
            raise ConfigError(
                f"the index does not know where its model is ({self._expected}) - open it with "
                "model=... (--model)"
            )
        if not self.folder.is_dir():
            raise ConfigError(
                f"there is no model in {self.folder} - say where it is now with model=... (--model)"
            )
        return self.folder

    def _checked(self, model: Model) -> Model:
        if self._expected is not None and (found := digest(model)) != self._expected.digest:
            raise FormatError(
                f"this is not the model that the index was made with - it was {self._expected}, "
                f"this one has digest {found[:12]} (recipe {model.recipe.name}) - use that one, or "
                "make a new index"
            )
        return model.eval()
