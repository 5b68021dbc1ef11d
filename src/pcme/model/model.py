"""Model: the two towers, the words and the objective; what `pcme.load` gives.

A model folder holds `recipe.json`, `weights.safetensors`, `vocab.json`; an imported model's also
`origin.json`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

import torch
from jaxtyping import Float, Shaped, UInt8
from PIL import Image
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from safetensors.torch import save as serialised
from torch import Tensor, nn

from pcme import methods
from pcme.core import files
from pcme.core.progress import Progress, silent
from pcme.core.random import torch_stream
from pcme.data.images.decoding import ImageError, decode
from pcme.data.images.transforms import ImageTransform, normalise
from pcme.data.text.tokens import Tokeniser, Tokens, Vocab
from pcme.embedding import Embedding, joined
from pcme.errors import DataError, FormatError, PcmeError, ShapeError
from pcme.model import origin, pretrained
from pcme.nn import captions as caption_networks
from pcme.nn import images as image_networks
from pcme.nn.towers import CaptionTower, ImageTower
from pcme.recipes.schema import Recipe, from_record
from pcme.scores.base import Score

__all__ = ["Model", "load", "verify"]

FILES = ("recipe.json", "vocab.json", "weights.safetensors")
Picture = str | Path | Image.Image | Tensor
T = TypeVar("T")


class Model(nn.Module):
    """Images and captions in, Gaussians (or points) out, and the score between them.

    `home` is the folder the model was saved in: pretrained weights are then left out, because the
    model's own follow.
    """

    def __init__(
        self,
        recipe: Recipe,
        vocab: Vocab,
        vectors: Float[Tensor, "v e"],
        *,
        home: Path | None = None,
    ) -> None:
        super().__init__()
        self.recipe, self.vocab = recipe, vocab
        self.method = methods.create(recipe.method.kind, **recipe.method.params)
        options = replace(self.method.heads(recipe.dim), means_given=recipe.means == "given")
        backbone = image_networks.create(recipe.image.kind, **recipe.image.params)
        captions = caption_networks.create(recipe.caption.kind, **recipe.caption.params)
        if home is not None:
            backbone, captions = backbone.stored(home / "image"), captions.stored(home / "caption")
        network = backbone.build(torch_stream(recipe.seed, "init", "backbone"))
        words = captions.build(
            vectors,
            dim=recipe.dim,
            generator=torch_stream(recipe.seed, "init", "words"),
            with_sigma=self.method.has_sigma,
        )
        self.images = ImageTower(
            network, options, generator=torch_stream(recipe.seed, "init", "image heads")
        )
        self.captions = CaptionTower(
            words, options, generator=torch_stream(recipe.seed, "init", "caption heads")
        )
        self.objective = self.method.objective()
        self.tokeniser: Tokeniser = words.tokeniser() or vocab
        self.origin: origin.Origin | None = None

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(chain(self.parameters(), self.buffers())).device

    @property
    def transform(self) -> ImageTransform:
        """What a picture goes through before it is embedded."""
        augment = self.recipe.augment
        if augment.crop == "none":
            return ImageTransform(size=augment.size, resize=None, crop="none")
        usual = ImageTransform.evaluation(augment.size, augment.resize)
        return replace(usual, crop=augment.crop) if augment.crop == "scaled-centre" else usual

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

    def embed_caption_vectors(self, vectors: Float[Tensor, "b ..."]) -> Embedding:
        """The embeddings of captions given as vectors [b,d] or [b,l,d]."""
        return self.captions(vectors.to(self.device))  # type: ignore[no-any-return]

    @torch.no_grad()
    def encode_images(
        self, pictures: Sequence[Picture], *, batch_size: int = 64, progress: Progress = silent
    ) -> Embedding:
        """The embeddings of pictures: paths, PIL images, or 8-bit tensors [3,h,w], also mixed.

        A tensor of the model's own size is taken as it is; all else goes through `transform`.
        `progress` is called after every batch.
        """
        self.eval()
        parts: list[Embedding] = []
        done = 0
        for chunk in _chunks(pictures, batch_size, "pictures"):
            pixels = [self._pixels(picture, done + n) for n, picture in enumerate(chunk)]
            parts.append(self.embed_images(torch.stack(pixels)))
            done += len(chunk)
            progress("images", done, len(pictures))
        return joined(parts)

    @torch.no_grad()
    def encode_captions(
        self, captions: Sequence[str], *, batch_size: int = 256, progress: Progress = silent
    ) -> Embedding:
        """The embeddings of captions; `progress` is called after every batch."""
        self.eval()
        parts: list[Embedding] = []
        done = 0
        for chunk in _chunks(captions, batch_size, "captions"):
            texts = [_text(caption, done + n) for n, caption in enumerate(chunk)]
            words = [self.tokeniser.split(text) for text in texts]
            parts.append(self.embed_tokens(self.tokeniser.encode_batch(words)))
            done += len(chunk)
            progress("captions", done, len(captions))
        return joined(parts)

    def score(self) -> Score:
        """The log match probability, with the learned scale and shift."""
        return self.objective.score()

    def save(self, folder: str | Path) -> None:
        """Write the model; `pcme.load(folder)` gives it back bit for bit."""
        target = self._save_words(folder)
        text = json.dumps(self.recipe.record(), indent=2) + "\n"
        files.write_text(target / "recipe.json", text)
        origin.save(self.origin, target)
        self._save_weights(target / "weights.safetensors", "pcme-model-1")

    def save_pretrained(
        self,
        folder: str | Path,
        *,
        figures: pretrained.Figures | None = None,
        license: str = "unknown",  # noqa: A002 - the name it has in a model card
    ) -> None:
        """Write the model as the Hugging Face hub has it, with a card; see `from_pretrained`.

        `figures` are those of `pcme.evaluation.retrieval`, for the card.
        """
        subwords = self.tokeniser is not self.vocab
        # First: what is wrong with the figures is said before anything is written.
        text = pretrained.card(
            self.recipe, words=None if subwords else len(self.vocab.words), figures=figures or {},
            license=license, origin=self.origin,
        )  # fmt: skip
        target = self._save_words(folder)
        files.write_text(target / pretrained.CONFIG, pretrained.config(self.recipe, self.origin))
        self._save_weights(target / pretrained.WEIGHTS, "pt")
        files.write_text(target / "README.md", text)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> "Model":
        """The model in a local folder that `save_pretrained` wrote, bit for bit."""
        root = Path(folder)
        recipe, found = pretrained.read(root)
        model = _assembled(root, recipe, root / pretrained.WEIGHTS)
        model.origin = found
        return model

    def _save_words(self, folder: str | Path) -> Path:
        target = files.ensure_folder(folder, "the model's folder")
        self.vocab.save(target / "vocab.json")
        self.images.network.save_files(target / "image")
        self.captions.words.save_files(target / "caption")
        return target

    def _save_weights(self, path: Path, format: str) -> None:  # noqa: A002 - safetensors' name
        weights = {name: value.contiguous() for name, value in self.state_dict().items()}
        with files.replacing(path) as draft:
            draft.write_bytes(serialised(weights, metadata={"format": format}))

    def _pixels(self, picture: Picture, number: int) -> UInt8[Tensor, "3 h w"]:
        size = self.transform.size
        if isinstance(picture, Tensor):
            if picture.dtype != torch.uint8 or picture.ndim != 3 or picture.shape[0] != 3:
                raise ShapeError(
                    f"picture {number} must be an 8-bit tensor [3,h,w] - got {picture.dtype} "
                    f"{list(picture.shape)} - give pixels from 0 to 255 as torch.uint8"
                )
            if picture.shape == (3, size, size):
                return picture.cpu()
            picture = Image.fromarray(picture.permute(1, 2, 0).cpu().numpy())
        return self.transform(_rgb(picture, number), None)


def load(folder: str | Path) -> Model:
    """The model in a run's folder, or in one written by `Model.save` or `save_pretrained`."""
    root = Path(folder)
    if not (root / "recipe.json").exists() and (root / pretrained.CONFIG).is_file():
        return Model.from_pretrained(root)
    _require_files(root)
    model = _assembled(root, _recipe(root), root / "weights.safetensors")
    model.origin = origin.load(root)
    return model


def _assembled(root: Path, recipe: Recipe, path: Path) -> Model:
    """The model of a recipe with the vocabulary and the weights of a folder."""
    vocab, weights = Vocab.load(root / "vocab.json"), _weights(path)
    words = weights.get("captions.words.words.weight")  # none in a model whose captions are vectors
    if words is not None:
        _require_words(root, len(vocab), len(words))
    try:
        shape = (len(vocab), recipe.words.dim) if words is None else words.shape
        model = Model(recipe, vocab, torch.zeros(shape), home=root)
        model.load_state_dict(weights)
    except (RuntimeError, PcmeError) as error:
        if isinstance(error.__cause__, ImportError):
            raise  # the files are well: a package is missing, and the error says which
        raise FormatError(
            f"{path} and the recipe (recipe.json, config.json) beside it do not fit together - "
            f"{error} - one of them was changed: take both from one run"
        ) from error
    return model.eval()


def verify(folder: Path, like: Model) -> None:
    """Refuse a folder of which `load` would not give a model built like this one.

    Weights are judged by their names and shapes, which are read without reading the weights.
    """
    _require_files(folder)
    if _recipe(folder) != like.recipe:
        raise FormatError(
            f"{folder / 'recipe.json'} is not the recipe of this run any more - put back a copy, "
            f"such as that in {folder / 'last'}"
        )
    _require_words(folder, len(Vocab.load(folder / "vocab.json")), len(like.vocab))
    path = folder / "weights.safetensors"
    try:
        with safe_open(path, framework="pt") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise _damaged(path, error) from error
    if found != {name: tuple(value.shape) for name, value in like.state_dict().items()}:
        raise FormatError(f"{path} holds the weights of another model - put back a copy")


def _require_files(root: Path) -> None:
    for name in FILES:
        if not (root / name).is_file():
            raise FormatError(f"{root} is not a model - it has no {name} - is the run finished?")


def _require_words(root: Path, listed: int, needed: int) -> None:
    if listed != needed:
        raise FormatError(
            f"{root / 'vocab.json'} lists {listed:,} words, the weights have {needed:,} - they are "
            "not of one model: put back a copy"
        )


def _recipe(root: Path) -> Recipe:
    path = root / "recipe.json"
    try:
        return from_record(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError, PcmeError) as error:
        raise FormatError(f"{path} is not a recipe - {error} - put back a copy") from error


def _weights(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> FormatError:
    return FormatError(f"{path} is damaged - {error} - put back a copy, or train again")


def _rgb(picture: str | Path | Image.Image, number: int) -> Image.Image:
    try:
        if isinstance(picture, Image.Image):
            return picture.convert("RGB")
        return decode(Path(picture))
    except (ImageError, OSError) as error:
        name = f"picture {number}" if isinstance(picture, Image.Image) else str(picture)
        raise DataError(f"{name}: {error} - mend it, or leave it out") from error


def _text(caption: str, number: int) -> str:
    if not isinstance(caption, str):
        raise DataError(f"caption {number} must be text - got {caption!r:.60}")
    return caption


def _chunks(items: Sequence[T], size: int, what: str) -> Iterator[Sequence[T]]:
    if isinstance(items, str) or not len(items):
        raise DataError(f"{what} must be a list with at least one item - got {items!r}")
    return (items[start : start + size] for start in range(0, len(items), size))
