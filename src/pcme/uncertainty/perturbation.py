"""Perturbation: σ of items whose pixels or words are erased. Paper: §4.4, Fig. 7."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float64, Int64

from pcme.core.checks import require, require_known
from pcme.core.progress import Progress, silent
from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.images.transforms import erase
from pcme.data.text.perturbation import append_unknown, erase_words
from pcme.embedding import Embedding, joined
from pcme.model import Model
from pcme.uncertainty.sigma import mean_log_sigma

RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of pixels or words that are erased."""
BATCH = 256
"""Captions embedded at a time."""

Words = Sequence[str]


def delete_words(words: Words, generator: np.random.Generator, ratio: float) -> list[str]:
    """Delete round(ratio·L) of the words at random; nested, as `erase_words` is.

    With the same seed it deletes the words that `erase_words` replaces by `<unk>`.

    >>> delete_words(["a", "small", "bird"], np.random.default_rng(0), 0.3)
    ['a', 'small']
    """
    require("ratio", 0 <= ratio <= 1, "in [0, 1]", ratio)
    gone = set(generator.permutation(len(words))[: round(ratio * len(words))].tolist())
    return [word for position, word in enumerate(words) if position not in gone]


WORDS: Mapping[str, Callable[[Words, np.random.Generator, float], list[str]]] = {
    "replaced": erase_words,
    "deleted": delete_words,
    "appended": lambda words, generator, ratio: append_unknown(words, ratio=ratio),
}
"""Perturbations of a caption: a share of its words becomes `<unk>`, or is deleted, or so many `<unk>`s are appended.
Paper: Fig. 7, and §F.1 for the last."""


def perturbed_log_sigma(
    model: Model, dataset: CaptionDataset, *, captions: int = 300, images: int = 300
) -> tuple[Float64[np.ndarray, "n r"], Float64[np.ndarray, "k r"]]:
    """Mean log σ of a sample of captions and images with RATIOS of words, or pixels, erased. Paper: Fig. 7."""
    rows, columns = sample_items(dataset, captions=captions, images=images)
    return perturbed_captions(model, dataset, rows, "replaced"), perturbed_images(model, dataset, columns)


def sample_items(
    dataset: CaptionDataset, *, captions: int, images: int
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " k"]]:
    """Rows of so many captions and images, or of all: a random sample, the same in every run."""
    generator = numpy_stream(0, "spoiled")
    rows = generator.permutation(len(dataset.captions))[:captions]
    return rows, generator.permutation(len(dataset.images))[:images]


def perturbed_captions(
    model: Model,
    dataset: CaptionDataset,
    captions: Int64[np.ndarray, " n"],
    perturbation: str,
    *,
    progress: Progress = silent,
) -> Float64[np.ndarray, "n r"]:
    """Mean log σ of captions under one of WORDS at each of RATIOS; what one ratio erases, all larger ones erase."""
    require_known("perturbation", perturbation, tuple(WORDS))
    perturb, sentences = WORDS[perturbation], [model.tokeniser.split(dataset.captions[i]) for i in captions.tolist()]

    def perturbed(ratio: float) -> Embedding:
        changed = [perturb(words, numpy_stream(0, "erased words", i), ratio) for i, words in enumerate(sentences)]
        return embed_words(model, changed)

    return _by_ratio(perturbed, "captions", progress)


def perturbed_images(
    model: Model, dataset: CaptionDataset, images: Int64[np.ndarray, " n"], *, progress: Progress = silent
) -> Float64[np.ndarray, "n r"]:
    """Mean log σ of images with each of RATIOS of their pixels erased, nested."""
    pixels = [model.transform(dataset.images.load(i)) for i in images.tolist()]

    def erased(ratio: float) -> Embedding:
        return model.encode_images([erase(p, ratio, numpy_stream(0, "erased pixels", i)) for i, p in enumerate(pixels)])

    return _by_ratio(erased, "images", progress)


@torch.no_grad()
def embed_words(model: Model, sentences: Sequence[Words]) -> Embedding:
    """Embed captions given as words."""
    model.eval()
    parts = [sentences[i : i + BATCH] for i in range(0, len(sentences), BATCH)]
    return joined([model.embed_tokens(model.tokeniser.encode_batch(part)).to("cpu") for part in parts])


def _by_ratio(embed: Callable[[float], Embedding], kind: str, progress: Progress) -> Float64[np.ndarray, "n r"]:
    columns = []
    for done, ratio in enumerate(RATIOS, start=1):
        columns.append(mean_log_sigma(embed(ratio)))
        progress(kind, done, len(RATIOS))
    return np.stack(columns, 1)
