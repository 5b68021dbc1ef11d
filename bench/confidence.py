"""`python -m bench.confidence`: is the confidence right, where the truth is known?

Fits on the validation species of Aviary with what `pcme calibrate` does, judges on species that
neither training nor calibration has seen: the 1,000 images of the test split, and 20,000 images of
4,000 other species. Trains the runs that are missing. Writes confidence.json and the tables of
docs/CONFIDENCE.md.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from scipy.special import expit

import pcme
from bench.tables import between_marks
from pcme.calibrating import calibrate, strangers
from pcme.calibration import auroc
from pcme.confidence import Confidence, Part, Report, judged, whole
from pcme.confidence.curve import Histogram, log_odds
from pcme.confidence.parts import log_probabilities
from pcme.data.aviary import Aviary
from pcme.data.problems import Problems
from pcme.data.streams import stream
from pcme.embedding import Embedding
from pcme.evaluation import Embedded, embed
from pcme.matches import Matches
from pcme.model import Model

HERE = Path(__file__).parent
DOCUMENT = HERE.parent / "docs" / "CONFIDENCE.md"
RECORD = HERE / "confidence.json"

RUNS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "pcme-overlap": ("aviary", ()),
    "pcme": ("aviary-pcme", ("method.kind=pcme",)),
}
"""{method: (its folder, how its recipe differs from `aviary`)}."""

METHODS = ("isotonic", "platt")
LARGE = Aviary(test_species=100, val_species=4000, val_images=5, captions_per_image=1)
"""Its split "val" shares no species with the usual splits."""
CAPTIONS = 2000
"""Of the large gallery, those that are searched for."""
COVERAGES = (100, 90, 80, 50, 20)
EDGES = (0.0, 1e-6, 1e-4, 1e-2, 0.1, 0.5, 0.9, 0.99, 1.0)
SIZES = (1_000, 20_000, 100_000, 1_000_000)


@dataclass(frozen=True)
class Searched:
    """A gallery with captions that have matches there, and captions that have none."""

    part: Part
    strangers: Embedding


def main() -> None:
    """Train what is missing, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = {name: measured(trained(name, options.runs)) for name in RUNS}
    RECORD.write_text(json.dumps(rows, indent=1) + "\n")
    write_tables(rows)


def trained(name: str, runs: Path) -> Path:
    """The folder of a run, which is trained first unless it has been."""
    folder, changes = RUNS[name]
    if not (runs / folder / "weights.safetensors").is_file():
        settings = [part for change in changes for part in ("--set", change)]
        command = [sys.executable, "-m", "pcme", "train", "aviary", "--out", str(runs / folder)]
        subprocess.run([*command, *settings], check=True, stdout=subprocess.DEVNULL)
    return runs / folder


def measured(folder: Path) -> dict[str, object]:
    """Everything about one run."""
    model = pcme.load(folder)
    fits = {
        method: calibrate(folder, Aviary().load("val"), method=method).confidence
        for method in METHODS
    }
    test, large = searched(model, Aviary().load("test")), searched(model, LARGE.load("val"))
    best = fits["isotonic"]
    print(f"{folder}: fitted and embedded", file=sys.stderr, flush=True)
    return {
        "growth": best.presence.growth,
        "reach": best.presence.reach(),
        "tails": tails(fits, model, test.part),
        "test": {m: shown(judge(fit, model, test)) for m, fit in fits.items()},
        "large": {m: shown(judge(fit, model, large)) for m, fit in fits.items()},
        "rules": {"test": rules(best, model, test), "large": rules(best, model, large)},
        "sizes": [size(best, n) for n in SIZES],
    }


def searched(model: Model, dataset: pcme.CaptionDataset) -> Searched:
    """A gallery, CAPTIONS of its captions when it is large, and captions that fit nothing there."""
    found = embed(model, dataset, Problems())
    alone = strangers(model, dataset)
    assert alone is not None
    small = len(dataset.images) <= 1000
    return Searched(whole(dataset, found.captions, found.images) if small else some(found), alone)


def some(found: Embedded) -> Part:
    """All images, and some captions at random."""
    dataset = found.dataset
    rows = np.sort(stream(0, "searched").permutation(len(dataset.captions))[:CAPTIONS])
    matches = Matches.from_facts(dataset.said[rows], dataset.facts)
    return Part(dataset.where, found.captions[rows.tolist()], found.images, matches)


def judge(fit: Confidence, model: Model, where: Searched) -> Report:
    """The report."""
    return judged(fit, model.score(), where.part, unmatched=where.strangers)


def shown(report: Report) -> dict[str, object]:
    """What is kept of a report: all but the bins and the curves between the shown points."""
    record = asdict(report)
    for name in ("raw", "calibrated"):
        del record[name]["reliability"]
    for name in ("by_p", "by_sigma"):
        risk = getattr(report, name)
        at = {str(p): risk.curve.covering(p / 100).risk for p in COVERAGES}
        record[name] = {"risk": at, "area": risk.area}
    return record


def tails(fits: Mapping[str, Confidence], model: Model, part: Part) -> list[dict[str, float]]:
    """Pairs by what the model says of them, what is true, and what each calibration says."""
    counted = Histogram()
    for _, log_p, truth in log_probabilities(model.score(), part):
        counted.add(log_p, truth)
    held = counted.pairs > 0
    pairs, matching = counted.pairs[held], counted.matching[held]
    odds = counted.total[held] / pairs
    says = {"raw": expit(odds)} | {m: expit(fit.curve(odds)) for m, fit in fits.items()}
    rows = []
    for low, high in pairwise(EDGES):
        some = (says["raw"] >= low) & (says["raw"] < high)
        if not some.any():
            continue
        means = {name: np.average(p[some], weights=pairs[some]) for name, p in says.items()}
        true = matching[some].sum() / pairs[some].sum()
        rows.append(
            {"from": low, "to": high, "pairs": int(pairs[some].sum()), "true": true, **means}
        )
    return rows


def rules(fit: Confidence, model: Model, where: Searched) -> dict[str, dict[str, float]]:
    """Ways to decide whether anything here matches: what is answered of either kind of caption."""
    nothing = Matches.from_pairs([], [], (len(where.strangers), len(where.part.images)))
    alone = Part(where.part.where, where.strangers, where.part.images, nothing)
    present, absent = evidence(fit, model, where.part), evidence(fit, model, alone)
    least, grown = fit.presence.threshold(), fit.presence.threshold(len(where.part.images))
    return {
        "best p ≥ ½": rule(present["best"], absent["best"], 0.5),
        "1 − Π(1 − p) ≥ ½": rule(present["any"], absent["any"], 0.5),
        "best p ≥ threshold at calibration": rule(present["best"], absent["best"], least),
        "**best p ≥ threshold for this many items**": rule(present["best"], absent["best"], grown),
    }


def evidence(fit: Confidence, model: Model, part: Part) -> dict[str, np.ndarray]:
    """Best p and 1 − Π(1 − p) of each caption: [(of all images, without its matches), caption]."""
    found: dict[str, list[np.ndarray]] = {"best": [], "any": []}
    for _, log_p, truth in log_probabilities(model.score(), part):
        whole = fit.curve(log_odds(log_p))
        both = np.stack([whole, np.where(truth, -np.inf, whole)])
        found["best"].append(expit(both.max(2)))
        found["any"].append(-np.expm1(-np.logaddexp(0, both).sum(2)))
    return {name: np.concatenate(parts, 1) for name, parts in found.items()}


def rule(present: np.ndarray, absent: np.ndarray, least: float) -> dict[str, float]:
    """What a threshold does to captions that have a match, and to those that have none."""
    answered, removed = (present >= least).mean(1).tolist()
    alarms = float((absent[0] >= least).mean())
    return {
        "threshold": least,
        "auroc": auroc(present[0], absent[0]),
        "answered": answered,
        "removed": removed,
        "false_alarm": alarms,
        "precision": answered / max(answered + alarms, 1e-12),
    }


def size(fit: Confidence, gallery: int) -> dict[str, float]:
    """The threshold for so many items, and its false alarms as far as growth tells them."""
    least = fit.presence.threshold(gallery)
    alarm = float(fit.presence.alarm(least, gallery))
    return {"gallery": gallery, "threshold": least, "false_alarm": alarm}


def write_tables(rows: Mapping[str, dict]) -> None:
    """Put the tables between the document's marks."""
    for mark, table in {
        "calibration": calibration_table(rows),
        "tails": tails_table(rows["pcme-overlap"]["tails"]),
        "rules": rules_table(rows),
        "sizes": sizes_table(rows["pcme-overlap"]["sizes"]),
        "refusal": refusal_table(rows),
    }.items():
        between_marks(DOCUMENT, f"confidence:{mark}", table)


def calibration_table(rows: Mapping[str, dict]) -> str:
    """Errors before and after, at both sizes."""
    head = ("model", "images", "p", "error, all pairs", "error, first hits", "log loss")
    lines = []
    for name, row in rows.items():
        for where in ("test", "large"):
            reports = row[where]
            any_one = reports["isotonic"]
            beliefs = {"raw": (any_one["raw"], any_one["raw_expected"])}
            beliefs |= {m: (reports[m]["calibrated"], reports[m]["expected"]) for m in METHODS}
            for kind, (belief, total) in beliefs.items():
                errors = [f"{belief[k]:.4f}" for k in ("error", "first_error", "log_loss")]
                images = f"{any_one['images']:,}"
                lines.append([name, images, kind, *errors, f"{total:.3f}"])
    return markdown([*head, "Σ p / matches"], lines)


def tails_table(rows: Sequence[Mapping[str, float]]) -> str:
    """Decades of the model's own p."""
    head = ["model says", "pairs", "raw, mean", "isotonic, mean", "platt, mean", "true share"]
    lines = [
        [f"{row['from']:g} to {row['to']:g}", f"{row['pairs']:,}"]
        + [f"{row[name]:.2g}" for name in ("raw", *METHODS, "true")]
        for row in rows
    ]
    return markdown(head, lines)


def rules_table(rows: Mapping[str, dict]) -> str:
    """What each rule does at both sizes."""
    head = ["model", "images", "answered when", "AUROC"]
    head += ["with a match", "fits nothing", "precision", "matches removed"]
    lines = [
        [name, f"{row[where]['isotonic']['images']:,}", text, f"{found['auroc']:.3f}"]
        + [f"{100 * found[k]:.1f} %" for k in ("answered", "false_alarm", "precision", "removed")]
        for name, row in rows.items()
        for where in ("test", "large")
        for text, found in row["rules"][where].items()
    ]
    return markdown(head, lines)


def sizes_table(rows: Sequence[Mapping[str, float]]) -> str:
    """How the threshold goes on."""
    head = ["items", "1 − threshold", "false alarms, by growth"]
    lines = [
        [f"{row['gallery']:,}", f"{1 - row['threshold']:.1e}", f"{100 * row['false_alarm']:.0f} %"]
        for row in rows
    ]
    return markdown(head, lines)


def refusal_table(rows: Mapping[str, dict]) -> str:
    """The risk at some coverages."""
    head = ["model", "images", "refused first", *(f"{p} %" for p in COVERAGES), "AURC"]
    lines = [
        [name, f"{row[where]['isotonic']['images']:,}", text]
        + [f"{100 * risk['risk'][str(p)]:.2f}" for p in COVERAGES]
        + [f"{100 * risk['area']:.2f}"]
        for name, row in rows.items()
        for where in ("test", "large")
        for text, risk in {
            "the least best p": row[where]["isotonic"]["by_p"],
            "the widest σ": row[where]["isotonic"]["by_sigma"],
        }.items()
    ]
    return markdown(head, lines)


def markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table."""
    rows = [head, ["---"] * len(head), *lines]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    main()
