"""Model: the two towers, the words and the objective; what `pcme.load` gives.

A model folder holds `recipe.json`, `weights.safetensors`, `vocab.json`.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from jaxtyping import Float, Shaped
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pcme import methods
from pcme.data.pixels import decode
from pcme.data.text import Tokens, Vocab, tokenise
from pcme.data.transforms import ImageTransform, normalise
from pcme.embedding import Embedding, joined
from pcme.errors import DataError, FormatError
from pcme.nn import images as image_networks
from pcme.nn.captions import WordGRU
from pcme.nn.towers import CaptionTower, ImageTower
from pcme.recipe import Recipe, from_record
from pcme.sampling import stream
from pcme.scores.base import Score

__all__ = ["Model", "load"]

Picture = str | Path | Image.Image | Tensor
T = TypeVar("T")


class Model(nn.Module):
    """Images and captions in, Gaussians (or points) out, and the score between them."""

    def __init__(self, recipe: Recipe, vocab: Vocab, vectors: Float[Tensor, "v e"]) -> None:
        super().__init__()
        self.recipe, self.vocab = recipe, vocab
        self.method = methods.create(recipe.method.kind, **recipe.method.params)
        options = self.method.heads(recipe.dim)
        backbone = image_networks.create(recipe.image.kind, **recipe.image.params)
        network = backbone.build(stream(recipe.seed, "init", "backbone"))
        words = WordGRU(
            vectors,
            dim=recipe.dim,
            generator=stream(recipe.seed, "init", "words"),
            with_sigma=options.covariance != "none",
        )
        self.images = ImageTower(
            network, options, generator=stream(recipe.seed, "init", "image heads")
        )
        self.captions = CaptionTower(
            words, options, generator=stream(recipe.seed, "init", "caption heads")
        )
        self.objective = self.method.objective()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def transform(self) -> ImageTransform:
        """What a picture goes through before it is embedded."""
        size = self.recipe.augment.size
        if self.recipe.augment.crop == "none":
            return ImageTransform(size=size, resize=None, crop="none")
        return ImageTransform.evaluation(size)

    def embed_images(self, inputs: Shaped[Tensor, "b ..."]) -> Embedding:
        """The embeddings of 8-bit pixels [b,3,h,w] or of the backbone's features [b,s,d]."""
        inputs = inputs.to(self.device)
        if inputs.ndim == 4:
            network = self.images.network
            inputs = normalise(inputs, network.mean, network.std)
        return self.images(inputs)  # type: ignore[no-any-return]

    def embed_tokens(self, tokens: Tokens) -> Embedding:
        """The embeddings of captions given as ids."""
        ids, lengths = tokens.ids.to(self.device), tokens.lengths.to(self.device)
        return self.captions(ids, lengths)  # type: ignore[no-any-return]

    @torch.no_grad()
    def encode_images(self, pictures: Sequence[Picture], *, batch_size: int = 64) -> Embedding:
        """The embeddings of pictures: paths, PIL images, or 8-bit tensors [3,h,w]."""
        self.eval()
        parts = [
            self.embed_images(torch.stack([self._pixels(picture) for picture in chunk]))
            for chunk in _chunks(pictures, batch_size, "pictures")
        ]
        return joined(parts)

    @torch.no_grad()
    def encode_captions(self, captions: Sequence[str], *, batch_size: int = 256) -> Embedding:
        """The embeddings of captions."""
        self.eval()
        parts = [
            self.embed_tokens(self.vocab.encode_batch([tokenise(text) for text in chunk]))
            for chunk in _chunks(captions, batch_size, "captions")
        ]
        return joined(parts)

    def score(self) -> Score:
        """The log match probability, with the learned scale and shift."""
        return self.objective.score()

    def save(self, folder: str | Path) -> None:
        """Write the model; `pcme.load(folder)` gives it back bit for bit."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        self.vocab.save(target / "vocab.json")
        _write(target / "recipe.json", json.dumps(self.recipe.record(), indent=2) + "\n")
        weights = {name: value.contiguous() for name, value in self.state_dict().items()}
        temporary = target / ".weights.part"
        save_file(weights, temporary, metadata={"format": "pcme-model-1"})
        os.replace(temporary, target / "weights.safetensors")

    def _pixels(self, picture: Picture) -> Tensor:
        if isinstance(picture, Tensor):
            return picture
        image = picture if isinstance(picture, Image.Image) else decode(Path(picture))
        return self.transform(image.convert("RGB"), None)


def load(folder: str | Path) -> Model:
    """The model in a run's folder, or in one written by `Model.save`."""
    root = Path(folder)
    for name in ("recipe.json", "vocab.json", "weights.safetensors"):
        if not (root / name).is_file():
            raise FormatError(f"{root} is not a model - it has no {name} - is the run finished?")
    try:
        record = json.loads((root / "recipe.json").read_text(encoding="utf-8"))
        weights = load_file(root / "weights.safetensors")
    except (ValueError, SafetensorError) as error:
        raise FormatError(f"{root} is damaged - {error} - take another checkpoint") from error
    vocab = Vocab.load(root / "vocab.json")
    try:
        shape = weights["captions.words.words.weight"].shape
        model = Model(from_record(record), vocab, torch.zeros(shape))
        model.load_state_dict(weights)
    except (KeyError, RuntimeError) as error:
        raise FormatError(f"{root}: weights do not fit the recipe - {error}") from error
    return model.eval()


def _chunks(items: Sequence[T], size: int, what: str) -> Iterator[Sequence[T]]:
    if isinstance(items, str) or not len(items):
        raise DataError(f"{what} must be a list with at least one item - got {items!r}")
    return (items[start : start + size] for start in range(0, len(items), size))


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
