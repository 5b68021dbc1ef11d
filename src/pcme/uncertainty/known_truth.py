"""A model against the exact truth, where every match is known (Aviary). Paper: §4.2, §4.4; Fig. 6 and 7."""

import numpy as np
from jaxtyping import Float64

from pcme.embedding import Gaussian
from pcme.evaluation import Embedded, retrieval
from pcme.model import Model
from pcme.uncertainty.calibrate import unmatched_captions
from pcme.uncertainty.perturbation import RATIOS, perturbed_log_sigma
from pcme.uncertainty.sigma import mean_log_sigma
from pcme.uncertainty.statistics import Calibration, auroc, rank_correlation


def measure_against_truth(model: Model, split: Embedded) -> dict[str, float]:
    """Metrics of a model that has embedded a split whose matches are all known.

    - `sigma~matches`: Spearman's ρ of a caption's mean log σ with its number of matches.
    - `off-centre`: the share of the squared distance from a caption to its matches that is not their own spread.
    - `sigma~unknown`, `sigma~erased`: ρ of mean log σ with the share of words, or pixels, erased.
    - `rises@unknown`, `rises@erased`: the share of items whose σ grows when half is erased.

    Metrics of σ are left out for a model without one, "no-match auroc" where captions without a match cannot be
    written.
    """
    dataset, matches = split.dataset, split.dataset.matches()
    metrics = retrieval(model.score(), split.images, split.captions, matches)
    names = ("r_precision", "recall@1")
    values = {f"{name} {direction}": part[name] for direction, part in metrics.items() for name in names}
    values |= _probabilities(model, split)
    if isinstance(split.captions, Gaussian):
        values["sigma~matches"] = rank_correlation(mean_log_sigma(split.captions), np.log(matches.counts))
        values["off-centre"] = _off_centre(split)
        captions, images = perturbed_log_sigma(model, dataset)
        values |= _response("unknown", captions) | _response("erased", images)
    return values


def _probabilities(model: Model, split: Embedded) -> dict[str, float]:
    """Calibration of p over all pairs, expected matches, and captions without a match."""
    matches, score = split.dataset.matches(), model.score()
    calibration = Calibration()
    expected, best = [], []
    for rows, block in score.blocks(split.captions, split.images):
        p = np.exp(np.asarray(block, np.float64))
        calibration.add(p.clip(0, 1), matches[rows].dense())
        expected.append(p.sum(1))
        best.append(p.max(1))
    values = {
        "calibration error": calibration.error,
        "expected~matches": rank_correlation(np.concatenate(expected), matches.counts.astype(np.float64)),
    }
    if (unmatched := unmatched_captions(model, split.dataset)) is not None:
        nothing = [np.exp(np.asarray(block, np.float64)).max(1) for _, block in score.blocks(unmatched, split.images)]
        values["no-match auroc"] = auroc(np.concatenate(best), np.concatenate(nothing))
    return values


def _off_centre(split: Embedded) -> float:
    """‖μ_c − centre of its matches‖² as a share of the mean ‖μ_c − μ_v‖² over them."""
    images, captions = (items.points()[:, 0].double().numpy() for items in (split.images, split.captions))
    matches = split.dataset.matches()
    shares = []
    for start in range(0, len(captions), 1000):
        rows = slice(start, start + 1000)
        weights = matches[rows].dense() / matches.counts[rows, None]
        centre, length = weights @ images, weights @ np.square(images).sum(1)
        beside = np.square(captions[rows] - centre).sum(1)
        spread = length - np.square(centre).sum(1)
        shares.append(beside / (beside + spread))
    return float(np.concatenate(shares).mean())


def _response(kind: str, log_sigma: Float64[np.ndarray, "n r"]) -> dict[str, float]:
    ratios = np.broadcast_to(RATIOS, log_sigma.shape)
    half = RATIOS.index(0.5)
    return {
        f"sigma~{kind}": rank_correlation(log_sigma.ravel(), ratios.ravel()),
        f"rises@{kind}": float((log_sigma[:, half] > log_sigma[:, 0]).mean()),
    }
