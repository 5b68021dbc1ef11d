"""A model against the truth, where every match is known (Aviary).

Retrieval both ways; does p mean what it says; is a caption that fits nothing told apart; does σ
say how many images a caption fits, and does it grow when pixels or words are taken away.

Paper: §4.2 (R-Precision), §4.4 (uncertainty; Fig. 6 and 7), with exact truth in place of labels.
"""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from pcme.calibration import Calibration, auroc, rank_correlation
from pcme.data.aviary import Aviary
from pcme.data.dataset import CaptionDataset
from pcme.data.streams import stream
from pcme.data.text import erase_words, tokenise
from pcme.data.transforms import erase
from pcme.embedding import Embedding, Gaussian
from pcme.evaluation import Embedded, retrieval
from pcme.model import Model

__all__ = ["RATIOS", "measured", "spoiled"]

RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of the pixels or words that are erased."""

UNMATCHED = 1000
SPOILED = 300
"""How many captions that fit nothing, and how many items to spoil."""


def measured(model: Model, found: Embedded) -> dict[str, float]:
    """Everything that the truth can say about a model that has embedded a split of Aviary.

    - `sigma~matches`: Spearman's ρ of a caption's mean log σ with how many images it fits.
    - `off-centre`: how much of the squared distance from a caption to its matches is not their own
      spread, but that it lies beside them (0: in their middle).
    - `sigma~unknown`, `sigma~erased`: ρ of mean log σ with the share of words, or pixels, erased.
    - `rises@unknown`, `rises@erased`: the share of items that are wider with half erased.

    Figures of σ are left out for a model without one.
    """
    dataset = found.dataset
    matches = dataset.matches()
    figures = retrieval(model.score(), found.images, found.captions, matches)
    values = {
        f"{name} {way}": part[name]
        for way, part in figures.items()
        for name in ("r_precision", "recall@1")
    }
    values |= _belief(model, dataset, found.captions, found.images)
    if isinstance(found.captions, Gaussian):
        width = _width(found.captions)
        values["sigma~matches"] = rank_correlation(width, np.log(matches.counts))
        values["off-centre"] = _off_centre(found)
        captions, images = spoiled(model, dataset)
        values |= _response("unknown", captions) | _response("erased", images)
    return values


def spoiled(
    model: Model, dataset: CaptionDataset
) -> tuple[Float64[np.ndarray, "n r"], Float64[np.ndarray, "n r"]]:
    """Mean log σ of captions and of images with RATIOS of their words, or pixels, erased."""
    drawn = stream(0, "spoiled")
    chosen = drawn.permutation(len(dataset.captions))[:SPOILED].tolist()
    sentences = [tokenise(dataset.captions[i]) for i in chosen]
    shown = drawn.permutation(len(dataset.images))[:SPOILED].tolist()
    pictures = [model.transform(dataset.images.load(i)) for i in shown]
    by_words = [_width(_erased_words(model, sentences, ratio)) for ratio in RATIOS]
    by_pixels = [_width(_erased_pixels(model, pictures, ratio)) for ratio in RATIOS]
    return np.stack(by_words, 1), np.stack(by_pixels, 1)


def _belief(
    model: Model, dataset: CaptionDataset, captions: Embedding, images: Embedding
) -> dict[str, float]:
    """Calibration of p over all pairs, the expected number of matches, and what fits nothing."""
    matches, score = dataset.matches(), model.score()
    calibration = Calibration()
    expected, best = [], []
    for rows, block in score.blocks(captions, images):
        p = np.exp(np.asarray(block, np.float64))
        calibration.add(p.clip(0, 1), matches[rows].dense())
        expected.append(p.sum(1))
        best.append(p.max(1))
    texts, _ = Aviary.unmatched(dataset, UNMATCHED)
    nothing = [
        np.exp(np.asarray(block, np.float64)).max(1)
        for _, block in score.blocks(model.encode_captions(texts), images)
    ]
    counts = matches.counts.astype(np.float64)
    return {
        "calibration error": calibration.error,
        "expected~matches": rank_correlation(np.concatenate(expected), counts),
        "no-match auroc": auroc(np.concatenate(best), np.concatenate(nothing)),
    }


def _off_centre(found: Embedded) -> float:
    """‖μ_c − centre of its matches‖² as a share of the mean of ‖μ_c − μ_v‖² over them."""
    assert isinstance(found.captions, Gaussian), "asked only of models with a sigma"
    assert isinstance(found.images, Gaussian), "asked only of models with a sigma"
    images, captions = found.images.mean.double().numpy(), found.captions.mean.double().numpy()
    matches = found.dataset.matches()
    shares = []
    for start in range(0, len(captions), 1000):
        rows = slice(start, start + 1000)
        of_each = matches[rows].dense() / matches.counts[rows, None]
        centre, length = of_each @ images, of_each @ np.square(images).sum(1)
        beside = np.square(captions[rows] - centre).sum(1)
        spread = length - np.square(centre).sum(1)
        shares.append(beside / (beside + spread))
    return float(np.concatenate(shares).mean())


def _response(kind: str, width: Float64[np.ndarray, "n r"]) -> dict[str, float]:
    ratios = np.broadcast_to(RATIOS, width.shape)
    half = RATIOS.index(0.5)
    return {
        f"sigma~{kind}": rank_correlation(width.ravel(), ratios.ravel()),
        f"rises@{kind}": float((width[:, half] > width[:, 0]).mean()),
    }


def _erased_words(model: Model, sentences: Sequence[Sequence[str]], ratio: float) -> Embedding:
    # one stream a sentence, so that what is erased at one ratio is erased at all larger ones
    return model.encode_captions(
        [
            " ".join(erase_words(words, stream(0, "erased words", i), ratio))
            for i, words in enumerate(sentences)
        ]
    )


def _erased_pixels(
    model: Model, pictures: Sequence[UInt8[Tensor, "3 h w"]], ratio: float
) -> Embedding:
    return model.encode_images(
        [erase(p, ratio, stream(0, "erased pixels", i)) for i, p in enumerate(pictures)]
    )


def _width(items: Embedding) -> Float64[np.ndarray, " n"]:
    """Mean log σ of each item."""
    assert isinstance(items, Gaussian), "asked only of models with a sigma"
    return items.log_sigma.to(torch.float64).mean(1).numpy()
