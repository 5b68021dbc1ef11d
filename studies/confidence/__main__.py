"""`python -m studies.confidence`: is the confidence right, where the truth is known?

Fits on the validation species of Aviary with what `pcme calibrate` does, judges on species that neither training nor
calibration has seen: the test split, on which the rule was developed; and, never looked at before, 1,000 images of 50
species and 20,000 images of 4,000 species. Trains the runs that are missing. Writes record.json and the tables of
docs/results/aviary.md (`--tables`: the tables alone, from the record).
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
"""Their splits "val" share no species with each other, with the usual splits, or with the first
4,100 species of the order, on some of which the rule was developed."""
CAPTIONS = 2000
"""Of the large gallery, those that are searched for."""
EDGES = (0.0, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 0.9, 0.99, 1.0)
SIZES = (1_000, 20_000, 100_000, 1_000_000)
SPECIES = (25, 50, 200, 800, 2000)
"""A calibration on so many of the large gallery's species, and how often each is drawn."""
DRAWS = 3


@dataclass(frozen=True)
class Searched:
    """A gallery with captions that have matches there, and captions that have none."""

    part: EvaluationSet
    strangers: Embedding


def main() -> None:
    """Train what is missing, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--tables", action="store_true", help="write the tables of the record only")
    options = parser.parse_args()
    if not options.tables:
        torch.set_num_threads(1)
        runs = aviary_runs(options.runs)
        write_record(RECORD, {name: measure(run, name == BEST) for name, run in runs.items()})
    write_tables(DOCUMENT, tables(read_record(RECORD)))


def measure(folder: Path, species: bool) -> dict[str, object]:
    """All metrics of one run; with `species`, also how many a calibration needs."""
    model = pcme.load(folder)
    fits = {method: calibrate(folder, Aviary().load("val"), method=method).confidence for method in METHODS}
    worlds = {"test": Aviary().load("test"), "fresh": FRESH.load("val"), "large": LARGE.load("val")}
    found = {name: embed(model, dataset, Problems()) for name, dataset in worlds.items()}
    asked = {name: searched(model, part) for name, part in found.items()}
    best = fits["isotonic"]
    print(f"{folder}: fitted and embedded", file=sys.stderr, flush=True)
    return {
        "growth": best.presence.growth,
        "reach": best.presence.reach(),
        "tails": tails(fits, model, asked["fresh"].part),
        "rules": {name: rules(best, model, where) for name, where in asked.items()},
        **{name: {m: shown(judge(one, model, where)) for m, one in fits.items()} for name, where in asked.items()},
        "sizes": [size(best, n) for n in SIZES],
        "species": list(by_species(model, found["large"], asked["fresh"])) if species else [],
    }


def searched(model: Model, found: Embedded) -> Searched:
    """A gallery with its captions, or with some of many, and captions that fit nothing there."""
    alone = unmatched_captions(model, found.dataset)
    assert alone is not None
    every = np.arange(len(found.dataset.images))
    return Searched(some(found, every, numpy_stream(0, "searched")), alone)


def some(found: Embedded, images: np.ndarray, generator: np.random.Generator) -> EvaluationSet:
    """These images, and their captions: as many as the test split has for 1,000, or fewer."""
    dataset = found.dataset
    rows = np.flatnonzero(np.isin(dataset.caption_image, images))
    if len(dataset.images) > 1000:
        rows = np.sort(generator.permutation(rows)[:CAPTIONS])
    matches = Matches.from_facts(dataset.said[rows], dataset.facts[images])
    return EvaluationSet(dataset.where, found.captions[rows.tolist()], found.images[images.tolist()], matches)


def by_species(model: Model, found: Embedded, fresh: Searched) -> Iterator[dict[str, float]]:
    """How a calibration on so many species of the large gallery does on other ones."""
    assert found.dataset.classes is not None
    species = found.dataset.classes.values
    for count in SPECIES:
        for draw in range(DRAWS):
            generator = numpy_stream(draw, "species", count)
            chosen = generator.permutation(LARGE.val_species)[:count]
            part = some(found, np.flatnonzero(np.isin(species, chosen)), generator)
            fitted = fit(model.score(), part, model="")
            report = judge(fitted, model, fresh)
            assert report.unmatched is not None
            yield {
                "species": count,
                "images": len(part.images),
                "growth": fitted.presence.growth,
                "removed": report.removed.false_alarm,
                "false_alarm": report.unmatched.false_alarm,
                "answered": report.unmatched.recall,
                "error": report.calibrated.error,
            }


def judge(confidence: Confidence, model: Model, where: Searched) -> CalibrationReport:
    """The report."""
    return assess(confidence, model.score(), where.part, unmatched=where.strangers)


def shown(report: CalibrationReport) -> dict[str, object]:
    """The record of a report, without the bins and the curves between the shown points."""
    record = asdict(report)
    for name in ("raw", "calibrated"):
        del record[name]["reliability"]
    for name in ("by_p", "by_sigma"):
        risk = getattr(report, name)
        at = {str(p): risk.curve.covering(p / 100).risk for p in COVERAGES}
        record[name] = {"risk": at, "area": risk.area}
    return record


def tails(fits: Mapping[str, Confidence], model: Model, part: EvaluationSet) -> list[dict[str, float]]:
    """Pairs by the model's own p: the true share, and p after each calibration."""
    counted = Histogram()
    for _, log_p, truth in log_probabilities(model.score(), part):
        counted.add(log_p, truth)
    pairs, total, matching = counted.filled()
    odds = total / pairs
    says = {"raw": expit(odds)} | {m: expit(one.curve(odds)) for m, one in fits.items()}
    rows = []
    for low, high in pairwise(EDGES):
        some = (says["raw"] >= low) & (says["raw"] < high)
        if not some.any():
            continue
        means = {name: np.average(p[some], weights=pairs[some]) for name, p in says.items()}
        true = matching[some].sum() / pairs[some].sum()
        rows.append({"from": low, "to": high, "pairs": int(pairs[some].sum()), "true": true, **means})
    return rows


def rules(confidence: Confidence, model: Model, where: Searched) -> dict[str, dict[str, float]]:
    """Rules that decide whether anything here matches, and the captions they answer."""
    nothing = Matches.from_pairs([], [], (len(where.strangers), len(where.part.images)))
    alone = EvaluationSet(where.part.where, where.strangers, where.part.images, nothing)
    present, absent = evidence(confidence, model, where.part), evidence(confidence, model, alone)
    least, grown = (confidence.presence.threshold(), confidence.presence.threshold(len(where.part.images)))
    return {
        "best p ≥ ½": rule(present["best"], absent["best"], 0.5),
        "1 − Π(1 − p) ≥ ½": rule(present["any"], absent["any"], np.log(2)),
        "best p ≥ threshold at calibration": rule(present["best"], absent["best"], least),
        "**best p ≥ threshold for this many items**": rule(present["best"], absent["best"], grown),
    }


def evidence(confidence: Confidence, model: Model, part: EvaluationSet) -> dict[str, np.ndarray]:
    """Best p and −log Π(1 − p) of each caption: [(of all images, without its matches), caption].

    The logarithm, since 1 − Π(1 − p) itself is 1 to the last bit for most and orders nothing.
    """
    found: dict[str, list[np.ndarray]] = {"best": [], "any": []}
    for _, log_p, truth in log_probabilities(model.score(), part):
        whole = confidence.curve(log_odds(log_p))
        both = np.stack([whole, np.where(truth, -np.inf, whole)])
        found["best"].append(expit(both.max(2)))
        found["any"].append(np.logaddexp(0, both).sum(2))
    return {name: np.concatenate(parts, 1) for name, parts in found.items()}


def rule(present: np.ndarray, absent: np.ndarray, least: float) -> dict[str, float]:
    """The effect of a threshold on captions with and without a match."""
    answered, alarms = float((present[0] >= least).mean()), float((absent[0] >= least).mean())
    without = present[1][present[1] > 0]  # 0 where a caption matches everything: nothing is left
    return {
        "threshold": least,
        "auroc": auroc(present[0], absent[0]),
        "answered": answered,
        "removed": float((without >= least).mean()),
        "false_alarm": alarms,
        "precision": answered / max(answered + alarms, 1e-12),
    }


def size(confidence: Confidence, gallery: int) -> dict[str, float]:
    """The threshold for so many items, and its false alarms as far as growth tells them."""
    least = confidence.presence.threshold(gallery)
    alarm = float(confidence.presence.alarm(least, gallery))
    return {"gallery": gallery, "threshold": least, "false_alarm": alarm}


if __name__ == "__main__":
    main()
