"""A model against the truth, where every match is known (Aviary).

Retrieval both ways; does p mean what it says; is a caption that fits nothing told apart; does σ
say how many images a caption fits, and does it grow when pixels or words are taken away.

Paper: §4.2 (R-Precision), §4.4 (uncertainty; Fig. 6 and 7), with exact truth in place of labels.
"""

import numpy as np
from jaxtyping import Float64

from pcme.data.dataset import CaptionDataset
from pcme.embedding import Embedding, Gaussian
from pcme.evaluation import Embedded, retrieval
from pcme.model import Model
from pcme.uncertainty.perturbation import RATIOS, spoiled, width
from pcme.uncertainty.statistics import Calibration, auroc, rank_correlation

__all__ = ["measured"]

UNMATCHED = 1000
"""How many captions that fit nothing."""


def measured(model: Model, found: Embedded) -> dict[str, float]:
    """Everything that the truth can say about a model that has embedded a split of Aviary.

    - `sigma~matches`: Spearman's ρ of a caption's mean log σ with how many images it fits.
    - `off-centre`: how much of the squared distance from a caption to its matches is not their own
      spread, but that it lies beside them (0: in their middle).
    - `sigma~unknown`, `sigma~erased`: ρ of mean log σ with the share of words, or pixels, erased.
    - `rises@unknown`, `rises@erased`: the share of items that are wider with half erased.

    Metrics of σ are left out for a model without one, "no-match auroc" where captions without a
    match cannot be written.
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
        spread = width(found.captions)
        values["sigma~matches"] = rank_correlation(spread, np.log(matches.counts))
        values["off-centre"] = _off_centre(found)
        captions, images = spoiled(model, dataset)
        values |= _response("unknown", captions) | _response("erased", images)
    return values


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
    values = {
        "calibration error": calibration.error,
        "expected~matches": rank_correlation(
            np.concatenate(expected), matches.counts.astype(np.float64)
        ),
    }
    if (written := dataset.unmatched(UNMATCHED)) is not None:
        unmatched = model.encode_captions(written.captions)
        blocks = score.blocks(unmatched, images)
        nothing = [np.exp(np.asarray(block, np.float64)).max(1) for _, block in blocks]
        values["no-match auroc"] = auroc(np.concatenate(best), np.concatenate(nothing))
    return values


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


def _response(kind: str, widths: Float64[np.ndarray, "n r"]) -> dict[str, float]:
    ratios = np.broadcast_to(RATIOS, widths.shape)
    half = RATIOS.index(0.5)
    return {
        f"sigma~{kind}": rank_correlation(widths.ravel(), ratios.ravel()),
        f"rises@{kind}": float((widths[:, half] > widths[:, 0]).mean()),
    }
