"""Model: the two towers, the vocabulary and the objective; the result of `pcme.load`."""

import json
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path

import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor, nn

from pcme import methods
from pcme.core import files
from pcme.core.progress import Progress, silent
from pcme.core.random import torch_stream
from pcme.data.images.transforms import ImageTransform, normalise
from pcme.data.text.tokens import Tokeniser, Tokens, Vocab
from pcme.embedding import Embedding
from pcme.errors import FormatError, PcmeError
from pcme.kernels.devices import AUTO, DeviceLike, choose
from pcme.model import folder, origin, pretrained
from pcme.model.calibration import Calibration, calibrations
from pcme.model.card import Figures
from pcme.model.inputs import ImageInput, embed_in_batches, to_pixels, to_text
from pcme.nn import captions as caption_networks
from pcme.nn import images as image_networks
from pcme.nn.backbone import Build, Features
from pcme.nn.towers import CaptionTower, ImageTower
from pcme.recipes.schema import Recipe
from pcme.scores.base import Score

Precision = Callable[[], AbstractContextManager[object]]
"""A `with` block for the backbones, such as torch's autocast."""
WORD_VECTORS = re.compile(r"captions\.words\.(parts\.\d+\.)?words\.weight")
"""Their name among the weights, alone or in a joined backbone; a model whose captions are vectors has none."""


class Model(nn.Module):
    """Images and captions in, Gaussians (or points) out, and the score between them.

    `home` is the folder the model was saved in: pretrained weights are then left out, because the model's own follow.

        model = pcme.load("runs/birds")
        captions = model.encode_captions(["a red bird", "a blue bird"])
        images = model.encode_images(["bird.jpg"])
        model.similarity(captions, images)  # [2, 1]
    """

    def __init__(
        self, recipe: Recipe, vocab: Vocab, vectors: Float[Tensor, "v e"], *, home: Path | None = None
    ) -> None:
        super().__init__()
        self.recipe, self.vocab, self.home = recipe, vocab, home
        self.method = methods.create(recipe.method.kind, **recipe.method.params)
        options = replace(self.method.heads(recipe.dim), means_given=recipe.means == "given")
        images = image_networks.create(recipe.image.kind, **recipe.image.params)
        captions = caption_networks.create(recipe.caption.kind, **recipe.caption.params)
        if home is not None:
            images = images.without_weights(home / "image")
            captions = captions.without_weights(home / "caption")

        def build(part: str) -> Build:
            generator = torch_stream(recipe.seed, "init", part)
            return Build(generator, recipe.dim, self.method.has_sigma, vectors)

        network, words = images.build(build("backbone")), captions.build(build("words"))
        self.images = ImageTower(network, options, generator=build("image heads").generator)
        self.captions = CaptionTower(words, options, generator=build("caption heads").generator)
        self.objective = self.method.objective()
        self.objective.complete(methods.Sizes(recipe.dim, words.vocabulary), build("objective").generator)
        self.tokeniser: Tokeniser = words.tokeniser(vocab)
        self.origin: origin.Origin | None = None

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(chain(self.parameters(), self.buffers())).device

    def move(self, device: DeviceLike) -> "Model":
        """Move the model to a device by its name (`pcme.kernels.devices.choose`), laid out as that likes it."""
        target = choose(device)
        self.to(target)
        if target.type != "cpu":
            self.images.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return self

    @property
    def transform(self) -> ImageTransform:
        """The transform of an image before it is embedded."""
        augment = self.recipe.augment
        if augment.crop == "none":
            return ImageTransform(size=augment.size, resize=None, crop="none")
        usual = ImageTransform.evaluation(augment.size, augment.resize)
        return replace(usual, crop=augment.crop) if augment.crop == "scaled-centre" else usual

    @torch.no_grad()
    def encode_images(
        self, images: Sequence[ImageInput], *, batch_size: int = 64, progress: Progress = silent
    ) -> Embedding:
        """The embeddings of images: paths, PIL images, or 8-bit tensors [3,h,w], also mixed.

        A tensor of the model's own size is taken as it is; all else goes through `transform`.
        `progress` is called after every batch. The embeddings are on the CPU, wherever the model is.
        """

        def embed(batch: Sequence[tuple[int, ImageInput]]) -> Embedding:
            return self.embed_images(torch.stack([to_pixels(image, n, self.transform) for n, image in batch]))

        self.eval()
        return embed_in_batches(images, "images", batch_size, embed, progress)

    @torch.no_grad()
    def encode_captions(
        self, captions: Sequence[str], *, batch_size: int = 256, progress: Progress = silent
    ) -> Embedding:
        """The embeddings of captions, on the CPU; `progress` is called after every batch."""

        def embed(batch: Sequence[tuple[int, str]]) -> Embedding:
            words = [self.tokeniser.split(to_text(caption, n)) for n, caption in batch]
            return self.embed_tokens(self.tokeniser.encode_batch(words))

        self.eval()
        return embed_in_batches(captions, "captions", batch_size, embed, progress)

    def score(self) -> Score:
        """The score the model was trained with, with its learned parameters."""
        return self.objective.score()

    def similarity(self, a: Embedding, b: Embedding) -> Float[Tensor, "a b"]:
        """The score of every item of `a` with every item of `b`: higher is better.

        For methods with a match probability it is the log of that.
        """
        return self.score()(a, b)

    def match_probability(self, a: Embedding, b: Embedding) -> Float[Tensor, "a b"]:
        """The probability that items match, from 0 to 1; calibrated where the model is.

        `pcme calibrate` writes a `confidence.json` beside the model, which is then used.
        """
        if self.confidence is None:
            return self.score().probability(a, b)
        log_p = self.similarity(a, b)
        return torch.from_numpy(self.confidence.probability(log_p.cpu().numpy())).to(log_p)

    @cached_property
    def confidence(self) -> Calibration | None:
        """The `pcme.Confidence` in the folder that the model was loaded from; None without one."""
        return None if self.home is None else calibrations.get("confidence").load(self.home)

    def features(
        self, inputs: Shaped[Tensor, "b ..."], *, top: int = 0, precision: Precision = nullcontext
    ) -> Float[Tensor, "b s d"]:
        """The image backbone's features, computed in a precision, in float32.

        Inputs are 8-bit pixels [b,3,h,w]; or maps [b,c,h,w], the output of all but the backbone's last `top` blocks;
        or features [b,s,d], returned as they are.
        """
        if inputs.ndim != 4:
            return inputs.to(self.device, non_blocking=True)
        with precision():
            if inputs.dtype != torch.uint8:
                return self.images.network.above(inputs.to(self.device, non_blocking=True), top).float()
            sites: Tensor = self.images.network(self.network_input(inputs))
        return sites.float()

    def network_input(self, pixels: UInt8[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 h w"]:
        """Pixels on the model's device, normalised for its image backbone."""
        network = self.images.network
        return normalise(pixels.to(self.device, non_blocking=True), network.mean, network.std)

    def embed_images(
        self, inputs: Shaped[Tensor, "b ..."], *, top: int = 0, precision: Precision = nullcontext
    ) -> Embedding:
        """The embeddings of 8-bit pixels, maps or features (`features`)."""
        features = self.features(inputs, top=top, precision=precision)
        with precision():
            return self.images(features)  # type: ignore[no-any-return]

    def embed_tokens(self, tokens: Tokens, *, precision: Precision = nullcontext) -> Embedding:
        """The embeddings of captions given as ids, and as states of the text towers where they are known."""
        ids = tokens.ids.to(self.device, non_blocking=True)
        states = [each.to(self.device, non_blocking=True) for each in tokens.states]
        with precision():
            features: Features = self.captions.words(ids, tokens.lengths, *([states] if states else []))
        return self.captions.heads(features.float())  # type: ignore[no-any-return]

    def embed_caption_vectors(
        self, vectors: Float[Tensor, "b ..."], *, precision: Precision = nullcontext
    ) -> Embedding:
        """The embeddings of captions given as vectors [b,d] or [b,l,d]."""
        with precision():
            features: Features = self.captions.words(vectors.to(self.device, non_blocking=True))
        return self.captions.heads(features.float())  # type: ignore[no-any-return]

    def save(self, target: str | Path) -> None:
        """Write the model; `pcme.load` gives it back bit for bit."""
        root = self._save_words(target)
        files.write_text(root / folder.RECIPE, json.dumps(self.recipe.record(), indent=2) + "\n")
        origin.save(self.origin, root)
        folder.write_weights(root / folder.WEIGHTS, self.state_dict(), "pcme-model-1")

    def save_pretrained(
        self,
        target: str | Path,
        *,
        figures: Figures | None = None,
        license: str = "unknown",  # noqa: A002 - the name it has in a model card
    ) -> None:
        """Write the model in the Hugging Face hub's layout, with a card; see `from_pretrained`.

        `figures` are those of `pcme.evaluation.retrieval`, for the card.
        """
        words = len(self.vocab.words) if self.tokeniser is self.vocab else None
        # First: wrong figures are refused before anything is written.
        text = pretrained.card(self.recipe, words, figures or {}, license, self.origin)
        root = self._save_words(target)
        files.write_text(root / pretrained.CONFIG, pretrained.config(self.recipe, self.origin))
        folder.write_weights(root / pretrained.WEIGHTS, self.state_dict(), "pt")
        files.write_text(root / "README.md", text)

    @classmethod
    def from_pretrained(cls, source: str | Path, *, device: DeviceLike = AUTO) -> "Model":
        """The model in a local folder that `save_pretrained` wrote, bit for bit."""
        root, target = Path(source), choose(device)
        recipe, came_from = pretrained.read(root)
        return _assemble(root, recipe, pretrained.WEIGHTS, came_from).move(target)

    def _save_words(self, target: str | Path) -> Path:
        root = files.ensure_folder(target, "the model's folder")
        self.vocab.save(root / folder.VOCAB)
        self.images.network.save_files(root / "image")
        self.captions.words.save_files(root / "caption")
        return root


def load(source: str | Path, *, device: DeviceLike = AUTO) -> Model:
    """The model in a run's folder, or in one written by `Model.save` or `save_pretrained`, on a device.

    `device` is "cpu", "cuda", "cuda:1" or "mps"; "auto" is an accelerator where there is one.
    """
    root, target = Path(source), choose(device)
    if not (root / folder.RECIPE).exists() and (root / pretrained.CONFIG).is_file():
        return Model.from_pretrained(root, device=target)
    folder.require_files(root)
    return _assemble(root, folder.read_recipe(root), folder.WEIGHTS, origin.load(root)).move(target)


def _assemble(root: Path, recipe: Recipe, file: str, came_from: origin.Origin | None) -> Model:
    """The model of a recipe with the vocabulary and the weights of a folder."""
    weights = folder.read_weights(root / file)
    words = next((weights[name] for name in weights if WORD_VECTORS.fullmatch(name)), None)
    vocab = folder.read_vocab(root, None if words is None else len(words))
    try:
        shape = (len(vocab), recipe.words.dim) if words is None else words.shape
        model = Model(recipe, vocab, torch.zeros(shape), home=root)
        model.load_state_dict(weights)
    except (RuntimeError, PcmeError) as error:
        if isinstance(error.__cause__, ImportError):
            raise  # the files are well: a package is missing, and the error names it
        raise FormatError(
            f"{root / file}: does not fit the recipe (recipe.json, config.json) beside it, got {error}. "
            "Take both from one run."
        ) from error
    model.origin = came_from
    return model.eval()
