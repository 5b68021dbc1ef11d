"""`python -m studies.confidence`: is the confidence right, where the truth is known?

Calibrates on the validation species of Aviary, as `pcme calibrate` does. Judges on three galleries of species that
neither training nor calibration has seen. One is the test split, on which the rule for "nothing matches" was developed.
The other two were never used before: 1,000 images of 50 species, and 20,000 images of 4,000 species. Trains missing
runs. Writes record.json and the tables of docs/results/aviary.md (`--tables`: the tables alone, from the record).
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from scipy.special import expit

import pcme
from pcme.core.random import numpy_stream
from pcme.data.aviary.dataset import Aviary
from pcme.data.problems import Problems
from pcme.embedding import Embedding
from pcme.evaluation import Embedded, embed
from pcme.model import Model
from pcme.retrieval.matches import Matches
from pcme.uncertainty import CalibrationReport, Confidence, EvaluationSet, assess, fit
from pcme.uncertainty.calibrate import calibrate, unmatched_captions
from pcme.uncertainty.curve import Histogram, log_odds
from pcme.uncertainty.evaluation_set import log_probabilities
from pcme.uncertainty.statistics import auroc
from studies.confidence.tables import COVERAGES, DOCUMENT, METHODS, RECORD, tables
from studies.runs import aviary_runs
from studies.tables import read_record, write_record, write_tables

BEST = "pcme-overlap"

LARGE = Aviary(test_species=4100, val_species=4000, val_images=5, captions_per_image=1)
FRESH = Aviary(test_species=8100, val_species=50, val_images=20)
"""Their splits "val" share no species with each other or with the default splits. They also leave out
the first 4,100 species of the order, because the rule was developed on some of them."""
CAPTIONS = 2000
"""How many captions search a gallery of more than 1,000 images."""
EDGES = (0.0, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 0.9, 0.99, 1.0)
SIZES = (1_000, 20_000, 100_000, 1_000_000)
SPECIES = (25, 50, 200, 800, 2000)
"""How many species of the large gallery a calibration gets."""
DRAWS = 3
"""How often species are drawn for each of these numbers."""


@dataclass(frozen=True)
class Gallery:
    """A gallery with captions that have matches in it, and captions that have none."""

    matched: EvaluationSet
    unmatched: Embedding


def main() -> None:
    """Train what is missing, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--tables", action="store_true", help="write the tables from the record, measure nothing")
    options = parser.parse_args()
    if not options.tables:
        torch.set_num_threads(1)
        runs = aviary_runs(options.runs)
        write_record(RECORD, {name: measure(run, name == BEST) for name, run in runs.items()})
    write_tables(DOCUMENT, tables(read_record(RECORD)))


def measure(folder: Path, species: bool) -> dict[str, object]:
    """All metrics of one run; with `species`, also those of calibrations on fewer and more species."""
    model = pcme.load(folder)
    fits = {method: calibrate(folder, Aviary().load("val"), method=method).confidence for method in METHODS}
    datasets = {"test": Aviary().load("test"), "fresh": FRESH.load("val"), "large": LARGE.load("val")}
    embedded = {name: embed(model, dataset, Problems()) for name, dataset in datasets.items()}
    galleries = {name: gallery_of(model, split) for name, split in embedded.items()}
    isotonic = fits["isotonic"]
    print(f"{folder}: fitted and embedded", file=sys.stderr, flush=True)
    return {
        "growth": isotonic.presence.growth,
        "reach": isotonic.presence.reach(),
        "tails": tails(fits, model, galleries["fresh"].matched),
        "rules": {name: rules(isotonic, model, gallery) for name, gallery in galleries.items()},
        **{
            name: {method: summary(judge(fitted, model, gallery)) for method, fitted in fits.items()}
            for name, gallery in galleries.items()
        },
        "sizes": [threshold_for(isotonic, count) for count in SIZES],
        "species": list(by_species(model, embedded["large"], galleries["fresh"])) if species else [],
    }


def gallery_of(model: Model, split: Embedded) -> Gallery:
    """All images of a split, their captions, and captions that fit none of the images."""
    unmatched = unmatched_captions(model, split.dataset)
    assert unmatched is not None
    every = np.arange(len(split.dataset.images))
    return Gallery(evaluation_set(split, every, numpy_stream(0, "searched")), unmatched)


def evaluation_set(split: Embedded, images: np.ndarray, generator: np.random.Generator) -> EvaluationSet:
    """These images of a split and their captions; of a large split, at most CAPTIONS drawn at random."""
    dataset = split.dataset
    rows = np.flatnonzero(np.isin(dataset.caption_image, images))
    if len(dataset.images) > 1000:
        rows = np.sort(generator.permutation(rows)[:CAPTIONS])
    matches = Matches.from_facts(dataset.said[rows], dataset.facts[images])
    return EvaluationSet(dataset.where, split.captions[rows.tolist()], split.images[images.tolist()], matches)


def by_species(model: Model, large: Embedded, fresh: Gallery) -> Iterator[dict[str, float]]:
    """Calibrate on part of the large gallery's species, and judge on the fresh gallery."""
    assert large.dataset.classes is not None
    species = large.dataset.classes.values
    for count in SPECIES:
        for draw in range(DRAWS):
            generator = numpy_stream(draw, "species", count)
            chosen = generator.permutation(LARGE.val_species)[:count]
            subset = evaluation_set(large, np.flatnonzero(np.isin(species, chosen)), generator)
            fitted = fit(model.score(), subset, model="")
            report = judge(fitted, model, fresh)
            assert report.unmatched is not None
            yield {
                "species": count,
                "images": len(subset.images),
                "growth": fitted.presence.growth,
                "removed": report.removed.false_alarm,
                "false_alarm": report.unmatched.false_alarm,
                "answered": report.unmatched.recall,
                "error": report.calibrated.error,
            }


def judge(confidence: Confidence, model: Model, gallery: Gallery) -> CalibrationReport:
    """The calibration report of a gallery."""
    return assess(confidence, model.score(), gallery.matched, unmatched=gallery.unmatched)


def summary(report: CalibrationReport) -> dict[str, object]:
    """The record of a report: without its bins, and with the risk at COVERAGES alone."""
    record = asdict(report)
    for name in ("raw", "calibrated"):
        del record[name]["reliability"]
    for name in ("by_p", "by_sigma"):
        risk = getattr(report, name)
        risks = {str(p): risk.curve.covering(p / 100).risk for p in COVERAGES}
        record[name] = {"risk": risks, "area": risk.area}
    return record


def tails(fits: Mapping[str, Confidence], model: Model, matched: EvaluationSet) -> list[dict[str, float]]:
    """Pairs grouped by the model's own p: the true share, and the mean p after each calibration."""
    histogram = Histogram()
    for _, log_p, truth in log_probabilities(model.score(), matched):
        histogram.add(log_p, truth)
    pairs, total, matching = histogram.filled()
    odds = total / pairs
    p_of = {"raw": expit(odds)} | {method: expit(fitted.curve(odds)) for method, fitted in fits.items()}
    rows = []
    for low, high in pairwise(EDGES):
        inside = (p_of["raw"] >= low) & (p_of["raw"] < high)
        if not inside.any():
            continue
        means = {name: np.average(p[inside], weights=pairs[inside]) for name, p in p_of.items()}
        true = matching[inside].sum() / pairs[inside].sum()
        rows.append({"from": low, "to": high, "pairs": int(pairs[inside].sum()), "true": true, **means})
    return rows


def rules(confidence: Confidence, model: Model, gallery: Gallery) -> dict[str, dict[str, float]]:
    """The effect of each rule that decides whether anything in the gallery matches."""
    matched = gallery.matched
    no_matches = Matches.from_pairs([], [], (len(gallery.unmatched), len(matched.images)))
    unmatched = EvaluationSet(matched.where, gallery.unmatched, matched.images, no_matches)
    present, absent = evidence(confidence, model, matched), evidence(confidence, model, unmatched)
    fixed, scaled = (confidence.presence.threshold(), confidence.presence.threshold(len(matched.images)))
    return {
        "best p ≥ ½": rule(present["best"], absent["best"], 0.5),
        "1 − Π(1 − p) ≥ ½": rule(present["any"], absent["any"], np.log(2)),
        "best p ≥ threshold at calibration": rule(present["best"], absent["best"], fixed),
        "**best p ≥ threshold for this many items**": rule(present["best"], absent["best"], scaled),
    }


def evidence(confidence: Confidence, model: Model, part: EvaluationSet) -> dict[str, np.ndarray]:
    """Best p and −log Π(1 − p) of each caption, among all images and among those without its matches [2, captions].

    The logarithm is used because 1 − Π(1 − p) rounds to 1 for most captions, which gives no order.
    """
    blocks: dict[str, list[np.ndarray]] = {"best": [], "any": []}
    for _, log_p, truth in log_probabilities(model.score(), part):
        odds = confidence.curve(log_odds(log_p))
        both = np.stack([odds, np.where(truth, -np.inf, odds)])
        blocks["best"].append(expit(both.max(2)))
        blocks["any"].append(np.logaddexp(0, both).sum(2))
    return {name: np.concatenate(parts, 1) for name, parts in blocks.items()}


def rule(present: np.ndarray, absent: np.ndarray, threshold: float) -> dict[str, float]:
    """The effect of a threshold on captions with and without a match."""
    answered, alarms = float((present[0] >= threshold).mean()), float((absent[0] >= threshold).mean())
    removed = present[1][present[1] > 0]  # 0 where a caption matches every image, so that none is left
    return {
        "threshold": threshold,
        "auroc": auroc(present[0], absent[0]),
        "answered": answered,
        "removed": float((removed >= threshold).mean()),
        "false_alarm": alarms,
        "precision": answered / max(answered + alarms, 1e-12),
    }


def threshold_for(confidence: Confidence, gallery: int) -> dict[str, float]:
    """The threshold for so many items, and the rate of false alarms that the growth predicts."""
    threshold = confidence.presence.threshold(gallery)
    alarm = float(confidence.presence.alarm(threshold, gallery))
    return {"gallery": gallery, "threshold": threshold, "false_alarm": alarm}


if __name__ == "__main__":
    main()
