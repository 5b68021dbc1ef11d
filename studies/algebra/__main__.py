"""`python -m studies.algebra`: do combined queries find what they say? Where the truth is known.

Captions are written for images of Aviary: of two the attributes do not overlap, and a third says
all that both say. What is true of "both", "either" and "one but not the other" follows from the
facts. Variants were compared on the validation species; the tables of docs/results/aviary.md, which
this writes with record.json, are of the test species (`--tables`: the tables alone).
"""

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.special import logsumexp

import pcme
from pcme.core.random import numpy_stream
from pcme.data.aviary.captions import compose
from pcme.data.aviary.dataset import Aviary
from pcme.data.problems import Problems
from pcme.embedding import Embedding, Gaussian
from pcme.evaluation import embed
from pcme.model import Model
from pcme.retrieval import metrics
from pcme.retrieval.labels import UNSAID
from pcme.retrieval.matches import Matches
from pcme.scores.combine import One, Query, all_of, any_of, but_not, product
from pcme.uncertainty import Confidence
from pcme.uncertainty.calibrate import calibrate
from pcme.uncertainty.statistics import Calibration, auroc
from studies.runs import aviary_runs
from studies.tables import DOCS, markdown, read_record, write_record, write_tables

DOCUMENT = DOCS / "results" / "aviary.md"
RECORD = Path(__file__).parent / "record.json"
TRIALS = 1500
ORDER = "p / q, an order only"


@dataclass(frozen=True)
class Captions:
    """Captions side by side: their embeddings and which images each is true of."""

    embedding: Gaussian
    truth: np.ndarray


@dataclass(frozen=True)
class Trials:
    """For each trial: two captions of one image, one that says both, another, one to exclude."""

    first: Captions
    second: Captions
    both: Captions
    other: Captions
    excluded: Captions


def main() -> None:
    """Train what is missing, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--split", default="test", choices=("val", "test"))
    parser.add_argument("--tables", action="store_true", help="write the tables of the record only")
    options = parser.parse_args()
    if not options.tables:
        torch.set_num_threads(1)
        runs = aviary_runs(options.runs)
        rows = {name: measure(run, options.split) for name, run in runs.items()}
        if options.split == "val":
            print(json.dumps(rows, indent=1))
            return
        write_record(RECORD, rows)
    write_tables(DOCUMENT, tables(read_record(RECORD)))


def measure(folder: Path, split: str) -> dict[str, dict[str, dict[str, float]]]:
    """All metrics of one run: {operation: {variant: metrics}}."""
    model = pcme.load(folder)
    confidence = calibrate(folder, Aviary().load("val")).confidence
    dataset = Aviary().load(split)
    images = embed(model, dataset, Problems()).images
    judge = Judge(model, confidence, images)
    return compare_evaluations(judge, write_trials(model, dataset))


def write_trials(model: Model, dataset: pcme.CaptionDataset) -> Trials:
    """The captions of all trials."""
    generator = numpy_stream(0, "algebra")
    facts = dataset.facts[generator.integers(len(dataset.facts), size=TRIALS)]
    order = np.argsort(generator.random(facts.shape), 1)
    counts = generator.integers(1, 4, (3, TRIALS, 1))
    first, second = order < counts[0], (order >= counts[0]) & (order < counts[0] + counts[1])
    elsewhere = dataset.facts[generator.integers(len(dataset.facts), size=TRIALS)]

    def captions(facts: np.ndarray, said: np.ndarray) -> Captions:
        texts = [compose(*bird, generator) for bird in zip(facts, said, strict=True)]
        embedding = model.encode_captions(texts)
        assert isinstance(embedding, Gaussian)
        truth = Matches.from_facts(np.where(said, facts, UNSAID), dataset.facts).dense()
        return Captions(embedding, truth)

    one = captions(facts, first)
    excluded = among(one.truth, dataset.facts, generator)
    return Trials(
        one,
        captions(facts, second),
        captions(facts, first | second),
        captions(elsewhere, np.argsort(generator.random(facts.shape), 1) < counts[2]),
        captions(excluded, order == counts[0]),
    )


def among(truth: np.ndarray, facts: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """The facts of an image that each caption is true of: some of them have what is excluded."""
    chosen = (generator.random(truth.shape) * truth).argmax(1)
    picked: np.ndarray = facts[chosen]
    return picked


@dataclass(frozen=True)
class Judge:
    """Scores queries and compares them with the truth."""

    model: Model
    confidence: Confidence
    images: Embedding

    def log_p(self, query: Query, *, calibrated: bool = True) -> np.ndarray:
        """Log match probability [trials, images]."""
        calibrate = self.confidence.log_probability if calibrated else None
        return query.log_probabilities(self.model.score(), self.images, calibrate=calibrate)

    def figures(self, log_p: np.ndarray, truth: np.ndarray) -> dict[str, float]:
        """Retrieval of the trials that have an answer, and the calibration of all."""
        some = truth.any(1) & ~truth.all(1)
        matches, counted = Matches.from_dense(truth[some]), Calibration()
        counted.add(np.exp(log_p), truth)
        pairs = zip(log_p[some], truth[some], strict=True)
        return {
            "r_precision": float(metrics.r_precision(log_p[some], matches).mean()),
            "recall@1": float(metrics.recall(log_p[some], matches, 1).mean()),
            "auroc": float(np.mean([auroc(row[true], row[~true]) for row, true in pairs])),
            "error": counted.error,
            "expected": float(np.exp(log_p).sum() / truth.sum()),
        }


def compare_evaluations(judge: Judge, trials: Trials) -> dict[str, dict[str, dict[str, float]]]:
    """Every operation, each in several variants."""
    return {"and": conjunctions(judge, trials), "or": disjunctions(judge, trials), "not": exclusions(judge, trials)}


def conjunctions(judge: Judge, trials: Trials) -> dict[str, dict[str, float]]:
    """Both, in several variants, beside the caption that says both."""
    a, b, truth = trials.first.embedding, trials.second.embedding, trials.both.truth
    density = product([a, b])
    unit = Gaussian(torch.nn.functional.normalize(density.mean, dim=1), density.log_sigma)
    pooled = Gaussian(density.mean, density.log_sigma + np.log(2) / 2)
    least = np.minimum(judge.log_p(One(a)), judge.log_p(One(b)))
    ways = {
        "one caption that says both": judge.log_p(One(trials.both.embedding)),
        "**product of probabilities** (`all_of`)": judge.log_p(all_of([a, b])),
        "the same, not calibrated": judge.log_p(all_of([a, b]), calibrated=False),
        "the lesser probability": least,
        'product of densities (`how="density"`)': judge.log_p(One(density)),
        "the same, its mean made a unit vector": judge.log_p(One(unit)),
        "geometric mean of densities": judge.log_p(One(pooled)),
        "the first caption alone": judge.log_p(One(a)),
    }
    return {way: judge.figures(log_p, truth) for way, log_p in ways.items()}


def disjunctions(judge: Judge, trials: Trials) -> dict[str, dict[str, float]]:
    """Either of two captions of different images."""
    a, b, truth = trials.first, trials.other, trials.first.truth | trials.other.truth
    parts = [judge.log_p(One(part.embedding)) for part in (a, b)]
    either = any_of([a.embedding, b.embedding])
    ways = {
        "**1 − (1 − p)(1 − q)** (`any_of`)": judge.log_p(either),
        "the same, not calibrated": judge.log_p(either, calibrated=False),
        "the greater probability": np.maximum(*parts),
        "mean of the probabilities (a mixture)": logsumexp(parts, axis=0) - np.log(2),
        "the first caption alone": parts[0],
    }
    return {way: judge.figures(log_p, truth) for way, log_p in ways.items()}


def exclusions(judge: Judge, trials: Trials) -> dict[str, dict[str, float]]:
    """The first caption, but not what the other says of some of its images."""
    a, b, truth = trials.first, trials.excluded, trials.first.truth & ~trials.excluded.truth
    without = but_not(a.embedding, b.embedding)
    alone = judge.log_p(One(a.embedding))
    ratio = alone - judge.log_p(One(b.embedding))
    ways = {
        "**p (1 − q)** (`but_not`)": judge.log_p(without),
        "the same, not calibrated": judge.log_p(without, calibrated=False),
        ORDER: ratio - ratio.max(),
        "the first caption alone": alone,
    }
    found = {way: judge.figures(log_p, truth) for way, log_p in ways.items()}
    del found[ORDER]["error"], found[ORDER]["expected"]
    return found


def tables(record: Mapping[str, dict]) -> dict[str, str]:
    """{mark: table}."""
    return {f"algebra:{name}": table(record, name) for name in ("and", "or", "not")}


def table(rows: Mapping[str, dict], operation: str) -> str:
    """One operation, all models."""
    head = ["model", "way", "R-P, %", "R@1, %", "AUROC", "calibration error", "Σ p / matches"]
    lines = [
        [name, way, *(f"{100 * f[key]:.1f}" for key in ("r_precision", "recall@1"))]
        + [f"{f[key]:.4f}" if key in f else "–" for key in ("auroc", "error", "expected")]
        for name, row in rows.items()
        for way, f in row[operation].items()
    ]
    return markdown(head, lines)


if __name__ == "__main__":
    main()
